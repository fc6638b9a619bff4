-- kb store, version 5: whoever makes the last vectors of the next model lets them answer.

ALTER TABLE models ADD COLUMN keep_old INTEGER NOT NULL DEFAULT 0;  -- of the next one: whether
                                              -- those that it takes the place of stay

-- Vectors that will not get the part they lack; every search in terms asks how many.
CREATE INDEX embeddings_given_up ON embeddings (model_id) WHERE state = 'ready' AND attempts >= 3;
