"""The columns of what :func:`~dedup_middleware.signature.evidence.examine` returns.

They are apart from it so that a method can name them without loading numba.
"""

COMMON, NEW, LONGEST, NEW_FRAME, NEW_VALUES, LOOSE_VALUES, NEW_TITLE, FALSE_POSITIVES = range(8)
COLUMNS = 8

# How many new words a page may have at the default threshold: in a row as a share of its words, at
# the least and at the most, and in lead and tail.
ROW, ROW_LEAST, ROW_MOST, FRAME_MOST = 0.04, 4.0, 12.0, 16.0
