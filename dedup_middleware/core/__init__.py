"""From a page to a verdict: fingerprint, drive the index, judge, rank."""
