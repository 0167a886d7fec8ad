"""Which planted bugs are found by this tool, and which by the tests that others publish."""
