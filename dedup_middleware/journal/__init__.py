"""Journal of dropped pages and their matches, so that drops can be restored until they age out."""
