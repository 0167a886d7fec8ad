"""Runs cases on targets: the worker pool, its schedule, and what can be visited here."""
