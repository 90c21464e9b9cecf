"""A news site of five invented outlets, served on loopback for `scrapy crawl news`.

Every text is fictional and written for this project.
"""

from crawler.sample_site.manifest import SamplePage
from crawler.sample_site.server import SampleSite, SampleSiteError

__all__ = ["SamplePage", "SampleSite", "SampleSiteError"]
