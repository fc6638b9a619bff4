-- kb store, version 10: the changes of chunks' texts, by which an index outside of this file finds
-- what it has missed (see words.py). The random stamp tells a change from one of a restored copy
-- that has the same number.

CREATE TABLE text_changes (
  change   INTEGER PRIMARY KEY AUTOINCREMENT,
  chunk_id INTEGER NOT NULL,
  stamp    INTEGER NOT NULL
);
INSERT INTO text_changes (chunk_id, stamp) VALUES (0, random());

CREATE TRIGGER text_changes_limit AFTER INSERT ON text_changes BEGIN
  DELETE FROM text_changes WHERE change <= new.change - 20000;
END;
CREATE TRIGGER chunks_text_insert AFTER INSERT ON chunks BEGIN
  INSERT INTO text_changes (chunk_id, stamp) VALUES (new.chunk_id, random());
END;
CREATE TRIGGER chunks_text_delete AFTER DELETE ON chunks BEGIN
  INSERT INTO text_changes (chunk_id, stamp) VALUES (old.chunk_id, random());
END;
CREATE TRIGGER chunks_text_update AFTER UPDATE OF chunk_id, heading, text, parts ON chunks BEGIN
  INSERT INTO text_changes (chunk_id, stamp) VALUES (old.chunk_id, random());
END;
