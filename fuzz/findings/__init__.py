"""Findings and how they are kept: buckets, case files, tallies, and the state of nights."""
