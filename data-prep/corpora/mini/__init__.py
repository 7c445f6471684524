"""Small corpora in the formats of the real ones, for trying a preparation or a whole table."""
