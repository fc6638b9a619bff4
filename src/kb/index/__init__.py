"""Pure functions over vectors. No I/O and no SQL.

    cosine             similarities that are identical on every machine and backend
    sparse_weights     sparse vectors as text and as numbers
    token_codes        quantized token vectors for late interaction
    token_codes_plain  the same decoding without numpy

Only `token_codes` imports numpy.
"""
