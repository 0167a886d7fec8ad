"""Version 5: many machines write to one store."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision, down_revision = "5", "4"
_NUMBER = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Passes by night, case files, leases; where and when a session was last heard of, and what it had saved then."""
    op.add_column("night", sa.Column("verb", sa.String(), nullable=False, server_default="nightly"))
    op.add_column("session", sa.Column("place", sa.String(), nullable=False, server_default=""))
    op.add_column("session", sa.Column("heard", sa.DateTime(), nullable=True))
    op.add_column("session", sa.Column("saved", _NUMBER, nullable=False, server_default="0"))
    op.create_table(
        "pass", *(_reference(name, table) for name, table in (("bucket_id", "bucket"), ("night_id", "night")))
    )
    op.create_table(
        "kept", sa.Column("name", sa.String(), primary_key=True), sa.Column("content", sa.Text(), nullable=False)
    )
    op.create_table(
        "lease",
        _reference("night_id", "night"),
        sa.Column("epoch", _NUMBER, primary_key=True),
        sa.Column("shard", _NUMBER, primary_key=True),
        sa.Column("token", sa.String(), nullable=False),
    )


def _reference(name: str, table: str) -> sa.Column[int]:
    return sa.Column(name, _NUMBER, sa.ForeignKey(f"{table}.id"), primary_key=True)
