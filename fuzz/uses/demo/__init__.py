"""The demonstration: a planted bug that an ordinary test passes."""
