"""Right and wrong kernels of ten kinds of operation, written by someone who knew only what each kind is, with the check
that a user would write. `python3 -m fuzz.tests.common.rows` runs them with ten seeds and prints a table."""
