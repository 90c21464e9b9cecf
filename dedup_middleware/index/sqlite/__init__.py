"""The index in a SQLite file."""
