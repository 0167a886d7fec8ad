"""A failing case made small and plain, while it fails in the same way."""
