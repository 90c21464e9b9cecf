"""From candidates to a verdict, and why."""
