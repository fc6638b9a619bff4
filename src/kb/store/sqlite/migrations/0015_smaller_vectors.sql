-- kb store, version 15: rows of `embeddings` are so short that several share a page. Dense vectors may
-- be packed (see dense_codes.py), and the other parts may be in pieces (see vector_pieces.py); then
-- `embeddings.sparse` and `tokens` have their checksum. Postings may be compressed (see
-- sparse_blocks.py). What older versions wrote stays readable, and `kb gc --compact` rewrites it.

CREATE TABLE vector_pieces (
  piece INTEGER PRIMARY KEY,                  -- embedding_id << 7 | whether of tokens << 6 | number
  data  BLOB NOT NULL
);
CREATE TRIGGER vector_pieces_delete AFTER DELETE ON embeddings
WHEN 4 IN (length(old.sparse), length(old.tokens)) BEGIN
  DELETE FROM vector_pieces
    WHERE piece BETWEEN old.embedding_id << 7 AND (old.embedding_id << 7) + 127;
END;
