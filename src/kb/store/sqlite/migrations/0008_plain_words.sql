-- kb store, version 8: words with soft hyphens, ligatures or invisible characters are also indexed
-- in their plain form (see plain_words.py). The texts stay as they are.

UPDATE chunks SET
  parts = kb_parts(CAST(heading AS BLOB), CAST(text AS BLOB)),
  cjk = kb_cjk(CAST(heading || char(10) || text AS BLOB))
WHERE kb_has_plain_form(CAST(heading || text AS BLOB));
