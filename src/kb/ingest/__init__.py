"""Ingest: from a folder to stored passages, one way.

    plan -> survey (walk) -> load (parse) -> draft (parsers/<format>, chunk) -> indexer -> store

`names`, `ignore` and `dates` serve the walk and the parsers; `secret_files` says which files every
door leaves alone.
"""
