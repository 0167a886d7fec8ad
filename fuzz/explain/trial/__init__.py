"""A failing case run again, and its variants, each judged for whether it fails in the same way."""
