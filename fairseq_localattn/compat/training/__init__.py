"""One training in one folder: it continues its own checkpoint only, no other trains there, and signals save it."""
