"""Sphinx configuration."""

project = "dedup-middleware"
author = "The dedup-middleware contributors"
extensions = ["myst_parser"]
html_theme = "sphinx_rtd_theme"
html_static_path = ["_static"]
html_css_files = ["tables.css"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3
suppress_warnings = ["myst.header"]
