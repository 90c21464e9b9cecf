"""Measures the methods on generated and on labelled documents."""
