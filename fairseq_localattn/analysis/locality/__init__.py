"""Share of attention within w positions of the query."""
