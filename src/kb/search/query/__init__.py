"""Queries: from text to terms and vectors.

analysis         text -> words, runs of unspaced scripts, or an FTS5 expression
query_encoder    text -> outputs of the model, cached
"""
