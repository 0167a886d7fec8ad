"""Revisions of the tables of a database of findings: Alembic runs those that a store lacks when it is opened."""

from __future__ import annotations

from pathlib import Path

from sqlalchemy import Connection


def upgrade(connection: Connection, version: int) -> None:
    """Bring the tables of that version up to date. Raises ImportError where there is no Alembic."""
    from alembic import command
    from alembic.config import Config

    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(Path(__file__).parent))
    command.stamp(config, str(version))
    command.upgrade(config, "head")
