"""Runs cases on targets: the worker pool, its schedule, and the corners that can be visited here."""
