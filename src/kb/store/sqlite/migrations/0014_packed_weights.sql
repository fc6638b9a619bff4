-- kb store, version 14: sparse vectors may be bytes (see sparse_weights.py); those that are JSON stay
-- readable, and `kb gc --compact` rewrites them. The log of changed texts is longer, so that after a
-- large ingest only what is new is added to the files beside the store (see word_files.py).

DROP TRIGGER text_changes_limit;
CREATE TRIGGER text_changes_limit AFTER INSERT ON text_changes BEGIN
  DELETE FROM text_changes WHERE change <= new.change - 100000;
END;
