"""Compare a page with its candidates and return the verdict with its reason."""
