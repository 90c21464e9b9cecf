"""Turn shingles into signatures: MinHash, SimHash, sketches, evidence; and compare them."""
