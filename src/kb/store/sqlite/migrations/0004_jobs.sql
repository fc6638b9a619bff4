-- kb store, version 4: which parts the vectors of a chunk have, and who is making them.
--
-- What is to be done is not listed anywhere: a chunk without a row in `embeddings` waits for its
-- vectors, from the transaction that wrote it on. `jobs` only says who is at work on which chunks,
-- so that no other begins with them; when that is lost, work is done twice, and written once.

ALTER TABLE models ADD COLUMN sparse INTEGER NOT NULL DEFAULT 0;  -- of those that are ready, how
ALTER TABLE models ADD COLUMN tokens INTEGER NOT NULL DEFAULT 0;  -- many have these parts
ALTER TABLE models ADD COLUMN source TEXT;  -- the name its encoder is found by; null: the setting's
UPDATE models SET
  sparse = (SELECT count(*) FROM embeddings e
    WHERE e.model_id = models.model_id AND state = 'ready' AND e.sparse IS NOT NULL),
  tokens = (SELECT count(*) FROM embeddings e
    WHERE e.model_id = models.model_id AND state = 'ready' AND e.tokens IS NOT NULL);

CREATE INDEX embeddings_no_sparse ON embeddings (model_id, chunk_id)
  WHERE state = 'ready' AND sparse IS NULL;
CREATE INDEX embeddings_no_tokens ON embeddings (model_id, chunk_id)
  WHERE state = 'ready' AND tokens IS NULL;

CREATE TABLE jobs (                           -- a run of a worker, while it lasts
  job_id      INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id    INTEGER NOT NULL REFERENCES models ON DELETE CASCADE,
  place       TEXT NOT NULL,                  -- the machine, as far as process ids reach
  pid         INTEGER NOT NULL,
  started     REAL NOT NULL,                  -- seconds since the epoch
  lease_until REAL NOT NULL,                  -- after which its chunks are anyone's again
  done        INTEGER NOT NULL DEFAULT 0,     -- chunks that it has committed
  chunk_ids   TEXT NOT NULL DEFAULT '[]'      -- JSON array: those that it is at work on
);
CREATE INDEX jobs_model ON jobs (model_id);

DROP TRIGGER embeddings_insert;
DROP TRIGGER embeddings_update;
DROP TRIGGER embeddings_delete;
CREATE TRIGGER embeddings_insert AFTER INSERT ON embeddings BEGIN
  UPDATE models SET
    ready = ready + (new.state = 'ready'),
    failed = failed + (new.state = 'failed'),
    sparse = sparse + (new.state = 'ready' AND new.sparse IS NOT NULL),
    tokens = tokens + (new.state = 'ready' AND new.tokens IS NOT NULL)
    WHERE model_id = new.model_id AND new.state <> 'pending';
  INSERT INTO vector_changes (model_id, chunk_id, stamp)
    SELECT new.model_id, new.chunk_id, random() WHERE new.state = 'ready';
END;
CREATE TRIGGER embeddings_update AFTER UPDATE ON embeddings
WHEN old.state <> new.state OR old.dense IS NOT new.dense OR old.sparse IS NOT new.sparse
  OR old.tokens IS NOT new.tokens OR old.chunk_id <> new.chunk_id OR old.model_id <> new.model_id
BEGIN
  UPDATE models SET
    ready = ready - (old.state = 'ready'),
    failed = failed - (old.state = 'failed'),
    sparse = sparse - (old.state = 'ready' AND old.sparse IS NOT NULL),
    tokens = tokens - (old.state = 'ready' AND old.tokens IS NOT NULL)
    WHERE model_id = old.model_id AND old.state <> 'pending';
  UPDATE models SET
    ready = ready + (new.state = 'ready'),
    failed = failed + (new.state = 'failed'),
    sparse = sparse + (new.state = 'ready' AND new.sparse IS NOT NULL),
    tokens = tokens + (new.state = 'ready' AND new.tokens IS NOT NULL)
    WHERE model_id = new.model_id AND new.state <> 'pending';
  INSERT INTO vector_changes (model_id, chunk_id, stamp)
    SELECT new.model_id, new.chunk_id, random() WHERE 'ready' IN (old.state, new.state);
END;
CREATE TRIGGER embeddings_delete AFTER DELETE ON embeddings BEGIN
  UPDATE models SET
    ready = ready - (old.state = 'ready'),
    failed = failed - (old.state = 'failed'),
    sparse = sparse - (old.state = 'ready' AND old.sparse IS NOT NULL),
    tokens = tokens - (old.state = 'ready' AND old.tokens IS NOT NULL)
    WHERE model_id = old.model_id AND old.state <> 'pending';
  INSERT INTO vector_changes (model_id, chunk_id, stamp)
    SELECT old.model_id, old.chunk_id, random() WHERE old.state = 'ready'
      AND 'gone' IS NOT (SELECT role FROM models WHERE model_id = old.model_id);
END;
