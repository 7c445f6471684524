"""Text files of any size: read, checked, joined, counted, unpacked."""
