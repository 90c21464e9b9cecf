"""Experiments that repeat what papers report. They are no part of the package for users."""
