"""Tables planned and carried out."""
