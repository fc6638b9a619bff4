"""Embedding: gives passages their vectors.

service            `KnowledgeBase.embed`, `jobs`, `worker` and `reindex`
embedder           leases passages from the queue, encodes them, writes their vectors
encode             calls the encoder, and splits a batch that fails
worker             the thread that embeds new passages in a long-running process
reindex            switches to another model without a gap
language_coverage  detects text that the encoder cannot read
"""
