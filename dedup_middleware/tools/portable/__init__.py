"""Export and import of an index of any kind as one Parquet file."""
