"""Corpora: kept cases and published test suites, as data."""
