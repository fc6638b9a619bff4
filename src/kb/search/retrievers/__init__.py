"""Retrievers: each finds candidates for a query in its own way.

registry           one entry per retriever: name, mode, label, scores, class
base               the retriever protocol, its request and its result
lexical            by words, in the full-text index; also literal matches
model_retriever    base class of the retrievers that use a model's output
dense              by the cosine of vectors
sparse             by term weights that a model learned
availability       which outputs of the model can be searched
readability        removes passages that the model cannot read from its lists
retrieval          runs the retrievers of a search, in parallel if that is faster
nearest_code       whether the nearest passages are code
thread_pool        the threads that retrievers run in
"""
