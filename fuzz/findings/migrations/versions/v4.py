"""Version 4: the tables as they were before there were revisions."""

from __future__ import annotations

revision, down_revision = "4", None


def upgrade() -> None:
    """Nothing: who has them has them."""
