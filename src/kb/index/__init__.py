"""Pure functions over vectors. No I/O and no SQL.

    normalize         scales a vector to length 1
    normalize_arrays  scales the rows of numpy arrays to length 1
    cosine            cosine similarities that are identical on every machine and backend
    sparse_weights    sparse vectors as text and as numbers
    token_codes       quantized token vectors for late interaction

Only `normalize_arrays` and `token_codes` import numpy.
"""
