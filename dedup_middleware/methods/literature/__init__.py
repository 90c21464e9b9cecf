"""Methods from the literature: a file for each family, and the registry that creates them."""
