"""Frozen values: documents, fingerprints, records, buckets, claims."""
