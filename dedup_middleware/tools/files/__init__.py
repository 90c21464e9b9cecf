"""De-duplication of files on one machine, with the rules of the crawl."""
