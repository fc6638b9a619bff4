-- kb store, version 9: finds the copies of a short text. Navigation and footers are repeated on many
-- pages, and do not rank.

CREATE INDEX chunks_short_text ON chunks (text, doc_id) WHERE length(text) <= 200;
