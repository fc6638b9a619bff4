-- kb store, version 6: what the exam of a model has shown.

ALTER TABLE models ADD COLUMN marks TEXT;     -- JSON array: part, script, known, asked; null: none yet
