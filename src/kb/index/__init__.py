"""Pure functions over vectors and postings. No I/O and no SQL.

    normalize         scales a vector to length 1
    normalize_arrays  scales the rows of numpy arrays to length 1
    cosine            cosine similarities that are identical on every machine and backend
    rescoring         the same for candidates in numpy arrays
    dense_codes       dense vectors in fewer bytes, without loss
    sparse_weights    sparse vectors as text and as numbers
    sparse_blocks     postings of sparse vectors as bytes, and dot products over them
    token_codes       quantized token vectors for late interaction
    int8_codes        dense vectors as bytes, which select candidates for an exact search
    vector_lists      inverted lists over very many dense vectors, of which a search compares a few
    word_postings     postings of words
    bm25              BM25 over postings of words
    pruning           the positions that may have the highest sums, without summing all of them
    word_pruning      the best chunks by BM25, without scoring all of them
    word_blocks       postings of words as bytes, a block for each term
    word_pairs        signatures of adjacent words, which show where a phrase cannot be
    selection         the best of many scores, under filters

`normalize_arrays`, `rescoring`, `token_codes`, `int8_codes`, `vector_lists`, `word_postings`,
`bm25`, `pruning`, `word_pruning`, `word_blocks`, `word_pairs` and `selection` need numpy.
"""
