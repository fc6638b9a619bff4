"""Results: from ranked chunks to what a caller sees.

signals             what the search knows about a hit, for its relevance
collapse            folds duplicates into one hit, and limits the hits of a document
hits                hits with document, citation, snippet and scores
snippets            the part of a chunk that answers best, and the ranges to highlight
layout              the sentences and lines of a chunk, as snippets show them
token_similarity    how near each sentence of a chunk is to the query
trace               the time and the facts of every stage
"""
