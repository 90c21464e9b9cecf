"""From a page to its shingles: extraction, normalisation, segmentation, features."""
