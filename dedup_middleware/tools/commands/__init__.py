"""Commands of the `scrapy` command line."""
