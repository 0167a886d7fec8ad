"""What all stages share: cases, layouts, dtypes, random streams, capabilities, outcomes, verdicts.

It imports no other stage.
"""

__version__ = "0.2.0"
