"""The modules that all stages share: cases, layouts, dtypes, random streams, capabilities, outcomes, verdicts.

They import no other stage.
"""

__version__ = "0.2.0"
