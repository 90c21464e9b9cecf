"""Settings of the news crawler, one module for each way to run it."""
