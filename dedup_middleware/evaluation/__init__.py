"""Measurements of the methods, on made and on labelled documents."""
