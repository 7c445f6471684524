"""Generation by other libraries, beside this package's."""
