"""Planted bugs: each found, for the right reason, and explained."""
