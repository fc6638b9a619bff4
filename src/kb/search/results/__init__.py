"""Results: from ranked chunks to what a caller sees.

hits        hits with document, citation, snippet and scores
snippets    the part of a chunk that matches best, and the ranges to highlight
trace       the time and the facts of every stage
"""
