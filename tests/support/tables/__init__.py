"""Tables for tests: small ones under a root of their own, and the rows of the papers with their numbers."""
