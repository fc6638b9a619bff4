-- kb store, version 11: parts of words are found by reading the texts. The trigram index took more
-- than half of the time of a write, for a lookup that is rare (see docs/decisions/0046).

DROP TRIGGER IF EXISTS chunks_insert;
DROP TRIGGER IF EXISTS chunks_delete;
DROP TRIGGER IF EXISTS chunks_update;
DROP TABLE IF EXISTS chunks_trigram;

CREATE TRIGGER chunks_insert AFTER INSERT ON chunks BEGIN
  INSERT INTO chunks_fts (rowid, chunk_id, doc_id, heading, text, parts)
    VALUES (new.chunk_id, new.chunk_id, new.doc_id, new.heading, new.text, new.parts);
  INSERT INTO chunks_cjk (rowid, cjk) VALUES (new.chunk_id, new.cjk);
END;
CREATE TRIGGER chunks_delete AFTER DELETE ON chunks BEGIN
  INSERT INTO chunks_fts (chunks_fts, rowid, chunk_id, doc_id, heading, text, parts)
    VALUES ('delete', old.chunk_id, old.chunk_id, old.doc_id, old.heading, old.text, old.parts);
  INSERT INTO chunks_cjk (chunks_cjk, rowid, cjk) VALUES ('delete', old.chunk_id, old.cjk);
END;
CREATE TRIGGER chunks_update AFTER UPDATE OF heading, text, parts, cjk ON chunks BEGIN
  INSERT INTO chunks_fts (chunks_fts, rowid, chunk_id, doc_id, heading, text, parts)
    VALUES ('delete', old.chunk_id, old.chunk_id, old.doc_id, old.heading, old.text, old.parts);
  INSERT INTO chunks_fts (rowid, chunk_id, doc_id, heading, text, parts)
    VALUES (new.chunk_id, new.chunk_id, new.doc_id, new.heading, new.text, new.parts);
  INSERT INTO chunks_cjk (chunks_cjk, rowid, cjk) VALUES ('delete', old.chunk_id, old.cjk);
  INSERT INTO chunks_cjk (rowid, cjk) VALUES (new.chunk_id, new.cjk);
END;
