"""Searches, the gate, nights, corpora: many cases of many kernels, and what is kept of them."""
