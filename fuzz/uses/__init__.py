"""What people use the tool for: searches, the gate, nights, checks from a test suite, corpora."""
