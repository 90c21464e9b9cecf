"""What was dropped, and against what: kept until it ages out, so that it can be brought back."""
