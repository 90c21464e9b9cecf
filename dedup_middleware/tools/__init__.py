"""Commands, reports, batch runs over files, and portable exports of an index."""
