"""Turn a page into shingles: extraction, normalisation, segmentation, hashing."""
