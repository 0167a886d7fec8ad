"""Judging: outcomes become verdicts. `oracles` decides numbers; what else can go wrong is decided here."""
