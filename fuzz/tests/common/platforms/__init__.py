"""Platforms, measured: whether each keeps what the table of platforms documents."""
