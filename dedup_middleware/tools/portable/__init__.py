"""One Parquet file for an index of any kind."""
