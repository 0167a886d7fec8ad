"""Kinds of kernels, and where they run: how each is declared, built, started and attested."""
