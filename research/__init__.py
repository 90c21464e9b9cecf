"""Experiments that repeat those of papers; not part of the installed package."""
