-- kb store, version 12: finds the texts in scripts other than Latin, which have more than 1.25 bytes
-- per character. A search asks which of its candidates a model cannot read.

CREATE INDEX chunks_wide_text ON chunks (chunk_id)
WHERE length(CAST(text AS BLOB)) > 1.25 * length(text);
