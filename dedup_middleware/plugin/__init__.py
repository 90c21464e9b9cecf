"""The Scrapy plugin: add-on, item pipeline, spider middleware, signals, stats, metrics."""
