"""What Hypothesis draws from in a search: the seed, and nothing else."""

from __future__ import annotations

from hypothesis.internal.conjecture.providers import AVAILABLE_PROVIDERS, HypothesisProvider

BACKEND = "kernelfuzz"
"""its name, for `hypothesis.settings`."""


class SeedProvider(HypothesisProvider):
    """Hypothesis's own distributions, without the constants that it reads out of all modules that are imported.

    With these a seed would give other cases beside other modules (in a test suite, or installed in another way), and
    the search would begin with parsing sources.
    """

    def _maybe_draw_constant(self, *_: object, **__: object) -> None:
        return None


AVAILABLE_PROVIDERS[BACKEND] = SeedProvider
