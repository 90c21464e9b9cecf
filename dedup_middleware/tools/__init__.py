"""Commands, report, files, archives, export."""
