"""Results as CSV files and as Markdown pages."""
