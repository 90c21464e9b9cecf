"""All that knows Scrapy."""
