"""Reranking: a closer reader orders the first candidates again.

stage               the rerank stage: budget, failures, result
selection           which reranker a search gets, or why it gets none
blend               reranker scores and fused scores on one scale
late_interaction    ColBERT-style comparison of token vectors
cross_encoder       a model that reads the query and a passage together
"""
