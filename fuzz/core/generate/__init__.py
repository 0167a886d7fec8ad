"""Generation: shapes, layouts and values, drawn by Hypothesis and filled by a counter-based generator."""
