-- kb store in PostgreSQL, version 3: the machine that has the folder of a root. Elsewhere, another
-- folder may have the same path, so the root is detached there.

ALTER TABLE roots ADD COLUMN machine text;    -- null: not known
