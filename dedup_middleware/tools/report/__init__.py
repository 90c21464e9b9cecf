"""The report: what was dropped and why, as one HTML file."""
