"""Ranking: from the lists of several retrievers to one list. Pure functions.

fusion         several ranked lists -> one
calibration    scores of different retrievers on comparable scales
adaptive       weights that depend on the query
agreement      weights that depend on how well the lists agree
boosts         factors for the kind, the accesses and the age of a document
"""
