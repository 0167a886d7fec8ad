"""From failure to fix: which kernel fails, on how small a case, on which inputs, and which failures are one bug. A
number here whose note does not say where it comes from was chosen, not measured, or its experiment is not known.
`python3 -m fuzz.quality explanations` measures the combined effect of all of them."""
