"""What the attacks under tests/attacks/ share."""
