"""Pure functions over vectors and postings. No I/O and no SQL.

    normalize         scales a vector to length 1
    normalize_arrays  scales the rows of numpy arrays to length 1
    cosine            cosine similarities that are identical on every machine and backend
    sparse_weights    sparse vectors as text and as numbers
    token_codes       quantized token vectors for late interaction
    int8_codes        dense vectors as bytes, which select candidates for an exact search
    word_postings     postings of words, and BM25 over them
    word_pairs        signatures of adjacent words, which tell where a phrase cannot be
    selection         the best of many scores, under filters

`normalize_arrays`, `token_codes`, `int8_codes`, `word_postings`, `word_pairs` and `selection` need
numpy.
"""
