"""Judging: outcomes become verdicts. Numeric truth comes from `oracles`; what else can go wrong is decided here."""
