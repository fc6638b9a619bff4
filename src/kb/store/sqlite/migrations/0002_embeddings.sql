-- kb store, version 2: vectors. `embeddings` is the truth; every index over them (a table of
-- sqlite-vec, a file beside the store) is derived, and finds by `vector_changes` what it has missed.

ALTER TABLE state ADD COLUMN store_id TEXT NOT NULL DEFAULT '';  -- tells this store from others
UPDATE state SET store_id = lower(hex(randomblob(16)));

CREATE TABLE models (
  model_id        INTEGER PRIMARY KEY AUTOINCREMENT,
  name            TEXT NOT NULL,
  version         TEXT NOT NULL,
  dimension       INTEGER NOT NULL,
  token_dimension INTEGER,                    -- of token vectors, if the model gives them
  role            TEXT UNIQUE,                -- `search` answers searches; another is built beside
  ready           INTEGER NOT NULL DEFAULT 0, -- how many embeddings of each state there are, kept
  failed          INTEGER NOT NULL DEFAULT 0, -- by the triggers below: every search asks
  UNIQUE (name, version, dimension)
);

CREATE TABLE embeddings (                     -- a chunk without a row here is pending
  embedding_id INTEGER PRIMARY KEY,
  model_id     INTEGER NOT NULL REFERENCES models ON DELETE CASCADE,
  chunk_id     INTEGER NOT NULL REFERENCES chunks ON DELETE CASCADE,
  state        TEXT NOT NULL CHECK (state IN ('pending', 'ready', 'failed')),
  attempts     INTEGER NOT NULL DEFAULT 0,    -- that failed
  embedded_at  TEXT,
  error        TEXT,                          -- of the last attempt
  dense        BLOB,                          -- float32, little-endian, of length 1
  sparse       TEXT,                          -- JSON object: token -> weight
  tokens       BLOB                           -- float32, little-endian, a row a token
);
CREATE UNIQUE INDEX embeddings_chunk ON embeddings (chunk_id, model_id);
CREATE INDEX embeddings_rest ON embeddings (model_id, state, chunk_id) WHERE state <> 'ready';

-- The last changes to vectors, by which derived indexes catch up. `stamp` is drawn at random, so
-- that a copy of the store that went its own way is not taken for this one.
CREATE TABLE vector_changes (
  change   INTEGER PRIMARY KEY AUTOINCREMENT,
  model_id INTEGER NOT NULL,
  chunk_id INTEGER NOT NULL,
  stamp    INTEGER NOT NULL
);
CREATE TRIGGER vector_changes_limit AFTER INSERT ON vector_changes BEGIN
  DELETE FROM vector_changes WHERE change <= new.change - 20000;
END;

CREATE TABLE vector_indexes (                 -- derived ones inside of this file
  name     TEXT PRIMARY KEY,
  model_id INTEGER NOT NULL,
  change   INTEGER NOT NULL,                  -- up to where it has followed
  stamp    INTEGER NOT NULL
);

CREATE TRIGGER embeddings_insert AFTER INSERT ON embeddings BEGIN
  UPDATE models SET ready = ready + (new.state = 'ready'), failed = failed + (new.state = 'failed')
    WHERE model_id = new.model_id AND new.state <> 'pending';
  INSERT INTO vector_changes (model_id, chunk_id, stamp)
    SELECT new.model_id, new.chunk_id, random() WHERE new.state = 'ready';
END;
CREATE TRIGGER embeddings_update AFTER UPDATE ON embeddings BEGIN
  UPDATE models SET ready = ready - (old.state = 'ready'), failed = failed - (old.state = 'failed')
    WHERE model_id = old.model_id AND old.state <> new.state;
  UPDATE models SET ready = ready + (new.state = 'ready'), failed = failed + (new.state = 'failed')
    WHERE model_id = new.model_id AND old.state <> new.state;
  INSERT INTO vector_changes (model_id, chunk_id, stamp)
    SELECT new.model_id, new.chunk_id, random() WHERE 'ready' IN (old.state, new.state);
END;
CREATE TRIGGER embeddings_delete AFTER DELETE ON embeddings BEGIN
  UPDATE models SET ready = ready - (old.state = 'ready'), failed = failed - (old.state = 'failed')
    WHERE model_id = old.model_id AND old.state <> 'pending';
  INSERT INTO vector_changes (model_id, chunk_id, stamp)
    SELECT old.model_id, old.chunk_id, random() WHERE old.state = 'ready';
END;

-- Vectors are those of a text: another text has none yet.
CREATE TRIGGER chunks_reword AFTER UPDATE OF heading, text ON chunks
WHEN old.heading IS NOT new.heading OR old.text IS NOT new.text BEGIN
  DELETE FROM embeddings WHERE chunk_id = old.chunk_id;
END;
