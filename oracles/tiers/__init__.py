"""What outputs may be, at three costs: a screen for many problems at once, float64 for whole outputs, mpmath for single
elements. Each tier leaves to the next what it cannot decide."""
