-- kb store, version 1. Small columns stand before long ones, so that a look at the former does not
-- read the latter's pages. Ids are never used twice (AUTOINCREMENT).

CREATE TABLE state (                       -- one row
  only       INTEGER PRIMARY KEY CHECK (only = 1),
  changes    INTEGER NOT NULL,             -- counts every write that a search could notice
  chunks     INTEGER NOT NULL,             -- how many there are: count(*) would read them all
  created_at TEXT NOT NULL
);
INSERT INTO state VALUES (1, 0, 0, strftime('%Y-%m-%dT%H:%M:%SZ', 'now'));

CREATE TABLE roots (
  root_id  INTEGER PRIMARY KEY AUTOINCREMENT,
  name     TEXT NOT NULL UNIQUE,
  path     TEXT NOT NULL UNIQUE,           -- absolute; a blob where it is not UTF-8
  whole    INTEGER NOT NULL                -- 0: only single files of it were asked for
);

CREATE TABLE documents (
  doc_id          INTEGER PRIMARY KEY AUTOINCREMENT,
  root_id         INTEGER REFERENCES roots,   -- null for notes
  path            TEXT NOT NULL,              -- inside the root, with /
  doc_path        TEXT NOT NULL UNIQUE,       -- <root name>/<path>, or note:<id>
  title           TEXT NOT NULL,
  type            TEXT NOT NULL,
  kind            TEXT,
  scope           TEXT NOT NULL,
  lang            TEXT,
  trust           TEXT NOT NULL,
  date            TEXT NOT NULL,              -- the document's own date
  created_at      TEXT NOT NULL,
  updated_at      TEXT NOT NULL,
  expires_at      TEXT,
  indexed_at      TEXT NOT NULL,
  indexed_ns      INTEGER NOT NULL,
  access_count    INTEGER NOT NULL DEFAULT 0,
  content_hash    TEXT NOT NULL,
  chunker_version TEXT NOT NULL,
  size_bytes      INTEGER NOT NULL,
  mtime_ns        INTEGER NOT NULL,
  ctime_ns        INTEGER NOT NULL,           -- changes with a rename, where mtime does not
  device          INTEGER,                    -- the file system it was on; null for notes
  os_path         BLOB,                       -- the name on disk, where it is not `path` in UTF-8
  metadata        TEXT NOT NULL,              -- JSON object: front-matter keys kb does not know
  body            TEXT                        -- a note's own text
);
CREATE INDEX documents_root ON documents (root_id, path);
CREATE INDEX documents_expiry ON documents (expires_at) WHERE expires_at IS NOT NULL;

CREATE TABLE document_tags (
  doc_id INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
  tag    TEXT NOT NULL,
  source TEXT NOT NULL,                       -- 'file': from its front matter; 'user': from kb tag
  PRIMARY KEY (doc_id, tag)
) WITHOUT ROWID;
CREATE INDEX document_tags_tag ON document_tags (tag, doc_id);

CREATE TABLE chunks (
  chunk_id        INTEGER PRIMARY KEY AUTOINCREMENT,
  doc_id          INTEGER NOT NULL REFERENCES documents ON DELETE CASCADE,
  ordinal         INTEGER NOT NULL,
  section_label   TEXT,
  chunker_version TEXT NOT NULL,
  content_hash    TEXT NOT NULL,
  indexed_at      TEXT NOT NULL,
  spans           TEXT NOT NULL,              -- JSON array
  heading_path    TEXT NOT NULL,              -- JSON array
  heading         TEXT NOT NULL,              -- title and heading path, as searched
  text            TEXT NOT NULL,
  parts           TEXT NOT NULL,              -- words inside of identifiers
  cjk             TEXT NOT NULL               -- one- and two-character pieces of unspaced scripts
);
CREATE INDEX chunks_doc ON chunks (doc_id, ordinal);

-- The lexical indexes read their content from `chunks` and are kept in step by triggers.
-- Written without positions (detail=none), the trigram index is a quarter of its full size.

CREATE VIRTUAL TABLE chunks_fts USING fts5 (
  chunk_id UNINDEXED, doc_id UNINDEXED, heading, text, parts,
  content = 'chunks', content_rowid = 'chunk_id',
  tokenize = 'porter unicode61 remove_diacritics 2'
);
CREATE VIRTUAL TABLE chunks_trigram USING fts5 (
  text, content = 'chunks', content_rowid = 'chunk_id', tokenize = 'trigram', detail = none
);
CREATE VIRTUAL TABLE chunks_cjk USING fts5 (
  cjk, content = 'chunks', content_rowid = 'chunk_id',
  tokenize = "unicode61 remove_diacritics 0 categories 'L* N* M* Co'"
);
CREATE VIRTUAL TABLE chunks_fts_terms USING fts5vocab ('chunks_fts', 'row');
CREATE VIRTUAL TABLE chunks_cjk_terms USING fts5vocab ('chunks_cjk', 'row');

CREATE TRIGGER chunks_insert AFTER INSERT ON chunks BEGIN
  INSERT INTO chunks_fts (rowid, chunk_id, doc_id, heading, text, parts)
    VALUES (new.chunk_id, new.chunk_id, new.doc_id, new.heading, new.text, new.parts);
  INSERT INTO chunks_trigram (rowid, text) VALUES (new.chunk_id, new.text);
  INSERT INTO chunks_cjk (rowid, cjk) VALUES (new.chunk_id, new.cjk);
END;
CREATE TRIGGER chunks_delete AFTER DELETE ON chunks BEGIN
  INSERT INTO chunks_fts (chunks_fts, rowid, chunk_id, doc_id, heading, text, parts)
    VALUES ('delete', old.chunk_id, old.chunk_id, old.doc_id, old.heading, old.text, old.parts);
  INSERT INTO chunks_trigram (chunks_trigram, rowid, text)
    VALUES ('delete', old.chunk_id, old.text);
  INSERT INTO chunks_cjk (chunks_cjk, rowid, cjk) VALUES ('delete', old.chunk_id, old.cjk);
END;
CREATE TRIGGER chunks_update AFTER UPDATE OF heading, text, parts, cjk ON chunks BEGIN
  INSERT INTO chunks_fts (chunks_fts, rowid, chunk_id, doc_id, heading, text, parts)
    VALUES ('delete', old.chunk_id, old.chunk_id, old.doc_id, old.heading, old.text, old.parts);
  INSERT INTO chunks_fts (rowid, chunk_id, doc_id, heading, text, parts)
    VALUES (new.chunk_id, new.chunk_id, new.doc_id, new.heading, new.text, new.parts);
  INSERT INTO chunks_trigram (chunks_trigram, rowid, text)
    VALUES ('delete', old.chunk_id, old.text);
  INSERT INTO chunks_trigram (rowid, text) VALUES (new.chunk_id, new.text);
  INSERT INTO chunks_cjk (chunks_cjk, rowid, cjk) VALUES ('delete', old.chunk_id, old.cjk);
  INSERT INTO chunks_cjk (rowid, cjk) VALUES (new.chunk_id, new.cjk);
END;
