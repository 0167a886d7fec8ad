"""The pre-merge gate: what is run before a change lands, and what makes it fail."""
