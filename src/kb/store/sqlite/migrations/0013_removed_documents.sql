-- kb store, version 13: what only the store knows of a document whose file was removed. A document
-- that is written at the same path of the same folder gets it back.

CREATE TABLE removed_documents (
  removed_id   INTEGER PRIMARY KEY AUTOINCREMENT,
  root_path    TEXT NOT NULL,                 -- as in roots; the root itself may be gone
  path         TEXT NOT NULL,                 -- inside the root, with /
  access_count INTEGER NOT NULL,
  user_tags    TEXT NOT NULL,                 -- JSON array
  UNIQUE (root_path, path)
);
