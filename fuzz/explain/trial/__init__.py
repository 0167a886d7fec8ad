"""Running a failing case again, and variants of it, to judge whether they fail in the same way."""
