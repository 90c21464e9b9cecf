"""The columns of what :func:`~dedup_middleware.signature.evidence.examine` returns.

They are apart from it so that a method can name them without loading numba.
"""

(
    COMMON,
    NEW,
    LONGEST,
    NEW_FRAME,
    NEW_VALUES,
    LOOSE_VALUES,
    NEW_TITLE,
    FALSE_POSITIVES,
    NEW_SUBJECT,
) = range(9)
COLUMNS = 9
