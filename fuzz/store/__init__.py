"""Storage: case files that replay bit for bit, and the record of a run."""
