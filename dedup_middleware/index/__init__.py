"""From numbers to neighbours: tables, records and the indexes that keep them."""
