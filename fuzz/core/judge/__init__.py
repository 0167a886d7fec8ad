"""Judging: outcomes become verdicts. `oracles` decides about numbers; all else that can go wrong is decided here."""
