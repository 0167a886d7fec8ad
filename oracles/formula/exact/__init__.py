"""The exact value of a formula: in mpmath, in double-double, and in float64 with a bound of its own error."""
