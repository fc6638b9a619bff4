"""Embedding: computes and stores the vectors of passages.

service            `KnowledgeBase.embed`, `jobs`, `worker` and `reindex`
embedder           leases passages from the queue, encodes them, writes their vectors
encode             calls the encoder, and retries the texts of a failed batch one by one
worker             the thread that embeds new passages in a long-running process
reindex            switches to another model without interrupting searches
language_coverage  detects text that the encoder cannot read
"""
