"""Traits, which describe a case, and the rules that are learned about them."""
