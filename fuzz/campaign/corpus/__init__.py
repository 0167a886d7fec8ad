"""Corpora: kept cases, as data."""
