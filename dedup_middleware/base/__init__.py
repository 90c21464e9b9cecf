"""Options, errors, and what compiles kernels and keeps files: imports no other room."""
