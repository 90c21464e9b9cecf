"""An index spread over the masters of a Redis Cluster."""
