"""A search: generating cases, running and judging them, and keeping what was found."""
