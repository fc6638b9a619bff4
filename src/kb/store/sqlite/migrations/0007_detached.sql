-- kb store, version 7: what an import brought. Its files may be anyone's: they are not read before
-- the user attaches the root, or ingests the file.

CREATE TABLE detached_roots (
  root_id INTEGER PRIMARY KEY REFERENCES roots ON DELETE CASCADE
);
CREATE TABLE detached_documents (
  doc_id INTEGER PRIMARY KEY REFERENCES documents ON DELETE CASCADE
);
