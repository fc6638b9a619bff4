"""Search: analyze -> retrieve -> fuse -> literal -> boost -> rerank -> cut -> hits. Only reads.

searcher            turns a request into a pipeline and runs it
context             what one search resolves once
pipeline            the stages, and the run of a query through them
profiles            named settings of a search
profile_settings    how the settings are read and checked
answers             sentences that answer a question
similar             passages like a given one
compare             one query, run with six methods
query/              from text to terms and vectors
retrievers/         lexical, dense and sparse retrieval, and their registry
ranking/            fusion, weights and boosts
rerank/             a slower, more precise model reorders the first candidates
results/            hits, snippets and the trace of a search
"""
