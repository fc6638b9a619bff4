"""Reranking: a slower, more precise model reorders the first candidates.

stage               the rerank stage: budget, failures, result
selection           which reranker a search gets, or why it gets none
blend               reranker scores and fused scores on one scale
automatic           the share of a reranker, which depends on the query
late_interaction    ColBERT-style comparison of token vectors
cross_encoder       a model that reads the query and a passage together
"""
