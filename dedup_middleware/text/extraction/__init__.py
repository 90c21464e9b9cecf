"""The steps of extraction: page structure, body extractors, metadata, clean-up."""
