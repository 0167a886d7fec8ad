"""Reports: the progress line, the table, failure texts, and machine-readable records."""
