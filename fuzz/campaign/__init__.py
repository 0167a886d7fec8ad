"""Searches, gates, nights and corpora: running many cases on many kernels, and keeping the cases that matter."""
