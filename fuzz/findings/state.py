"""What can be wrong with a nightly state."""


class StateError(Exception):
    """A state that cannot be used as it is. The message says what to do."""


DATABASE, FINDINGS, PAGE = "state.sqlite", "findings", "report.html"
"""what a state folder holds."""
