"""The index of fingerprints: one interface; back ends in memory, SQLite, Redis, Redis Cluster."""
