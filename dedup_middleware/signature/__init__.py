"""From shingles to numbers: MinHash, SimHash, sketches and the Hamming kernels."""
