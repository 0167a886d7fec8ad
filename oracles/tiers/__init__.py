"""Three tiers that decide which outputs conform: a screen for many problems at once, float64 for whole outputs, mpmath
for single elements. Each tier leaves open cases to the next, which costs more."""
