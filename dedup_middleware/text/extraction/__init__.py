"""Parts of the extraction: encodings, page structure, body extractors, clean-up."""
