"""The replay: a reference that no formula is read from judges by itself, run in float64."""
