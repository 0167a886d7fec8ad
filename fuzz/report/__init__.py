"""Reports: the progress line, tables, texts of failures, and records for programs."""
