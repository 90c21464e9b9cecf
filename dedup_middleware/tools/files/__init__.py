"""De-duplication of files on one machine, by the rule of the crawl."""
