"""Sphinx configuration."""

project = "dedup-middleware"
author = "The dedup-middleware contributors"
extensions = ["myst_parser"]
html_theme = "sphinx_rtd_theme"
exclude_patterns = ["_build"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]
