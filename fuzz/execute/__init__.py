"""Runs cases: targets, their build, the worker processes and the protocol they speak."""
