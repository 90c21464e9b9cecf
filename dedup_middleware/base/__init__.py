"""Options, errors, compiled kernels and files; imports no other folder of the package."""
