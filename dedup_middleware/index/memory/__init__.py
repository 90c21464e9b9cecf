"""The index in the memory of one process."""
