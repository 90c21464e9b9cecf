"""Methods of the literature: one file for each family, and the registry that makes them."""
