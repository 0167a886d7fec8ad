"""From failure to fix: who fails, on how little, on which inputs, and which failures are one bug. Numbers here whose
comment does not say where they come from were chosen, not measured, or the experiment is not known. `python3 -m
fuzz.quality explanations` measures their combined effect."""
