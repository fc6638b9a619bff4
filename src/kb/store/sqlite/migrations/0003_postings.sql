-- kb store, version 3: an inverted index over `embeddings.sparse`, derived and kept in step.
--
-- Postings stand in segments that are written once and never changed: a write of many chunks adds
-- one, small ones are merged into larger ones, and what has gone is listed beside them until then.
-- The triggers note what has come and gone, whoever writes; so a search is exact even before
-- `sparse_pending` is folded into a segment.

CREATE TABLE sparse_terms (
  term_id INTEGER PRIMARY KEY,
  term    TEXT NOT NULL UNIQUE
);

CREATE TABLE sparse_segments (
  segment   INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id  INTEGER NOT NULL REFERENCES models ON DELETE CASCADE,
  stamp     INTEGER NOT NULL,                 -- drawn at random: tells it from a copy's own
  chunks    INTEGER NOT NULL,                 -- how many it was made of
  chunk_ids BLOB NOT NULL                     -- int64, little-endian, rising
);
CREATE INDEX sparse_segments_model ON sparse_segments (model_id, segment, stamp, chunks);

CREATE TABLE sparse_postings (
  posting INTEGER PRIMARY KEY,                -- segment << 32 | term_id
  block   BLOB NOT NULL                       -- n float32 weights, then n uint16 places in chunk_ids
);

CREATE TABLE sparse_chunks (                  -- where a chunk's postings stand
  chunk_id INTEGER NOT NULL,
  model_id INTEGER NOT NULL,
  segment  INTEGER NOT NULL,
  PRIMARY KEY (chunk_id, model_id)
) WITHOUT ROWID;

CREATE TABLE sparse_gone (                    -- postings that count no more
  segment  INTEGER NOT NULL,
  chunk_id INTEGER NOT NULL,
  PRIMARY KEY (segment, chunk_id)
) WITHOUT ROWID;

CREATE TABLE sparse_pending (                 -- chunks whose postings are in no segment yet
  model_id INTEGER NOT NULL,
  chunk_id INTEGER NOT NULL,
  PRIMARY KEY (model_id, chunk_id)
) WITHOUT ROWID;

INSERT INTO sparse_pending
  SELECT model_id, chunk_id FROM embeddings WHERE sparse IS NOT NULL AND state = 'ready';

CREATE TRIGGER sparse_segments_delete AFTER DELETE ON sparse_segments BEGIN
  DELETE FROM sparse_postings
    WHERE posting BETWEEN old.segment << 32 AND (old.segment << 32) + 4294967295;
  DELETE FROM sparse_gone WHERE segment = old.segment;
END;

CREATE TRIGGER sparse_insert AFTER INSERT ON embeddings
WHEN new.sparse IS NOT NULL AND new.state = 'ready' BEGIN
  INSERT INTO sparse_pending VALUES (new.model_id, new.chunk_id);
END;
CREATE TRIGGER sparse_update AFTER UPDATE ON embeddings
WHEN old.sparse IS NOT new.sparse OR old.state <> new.state
  OR old.chunk_id <> new.chunk_id OR old.model_id <> new.model_id BEGIN
  INSERT INTO sparse_gone SELECT segment, chunk_id FROM sparse_chunks
    WHERE chunk_id = old.chunk_id AND model_id = old.model_id;
  DELETE FROM sparse_chunks WHERE chunk_id = old.chunk_id AND model_id = old.model_id;
  DELETE FROM sparse_pending WHERE model_id = old.model_id AND chunk_id = old.chunk_id;
  INSERT INTO sparse_pending SELECT new.model_id, new.chunk_id
    WHERE new.sparse IS NOT NULL AND new.state = 'ready';
END;
CREATE TRIGGER sparse_delete AFTER DELETE ON embeddings WHEN old.sparse IS NOT NULL BEGIN
  INSERT INTO sparse_gone SELECT segment, chunk_id FROM sparse_chunks
    WHERE chunk_id = old.chunk_id AND model_id = old.model_id;
  DELETE FROM sparse_chunks WHERE chunk_id = old.chunk_id AND model_id = old.model_id;
  DELETE FROM sparse_pending WHERE model_id = old.model_id AND chunk_id = old.chunk_id;
END;

-- Token vectors now say how they are written (see token_codes.py); those there are: float32.
UPDATE embeddings SET tokens = CAST(
  unhex(printf('00%02x%02x%02x%02x%02x%02x',
    d & 255, d >> 8 & 255, n & 255, n >> 8 & 255, n >> 16 & 255, n >> 24 & 255)) || tokens AS BLOB)
FROM (
  SELECT embedding_id AS id, token_dimension AS d, length(tokens) / (4 * token_dimension) AS n
  FROM embeddings JOIN models USING (model_id) WHERE tokens IS NOT NULL AND token_dimension > 0
) WHERE embedding_id = id;
