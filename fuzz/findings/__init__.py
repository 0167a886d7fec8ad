"""What was found and how it is kept: buckets, case files, tallies, and the state of the nights."""
