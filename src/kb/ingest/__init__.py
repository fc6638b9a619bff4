"""Ingest: from a folder to stored passages, one way.

    plan -> survey (walk) -> load (parse) -> parser_pool -> draft -> indexer -> store
                                                |
                 parser_worker (parsers/<format>, chunk), in a process of its own

`names`, `ignore` and `dates` serve the walk and the parsers; `secret_files` says which files every
door leaves alone.
"""
