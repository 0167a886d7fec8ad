"""What Alembic runs for revisions: they are done in the transaction of the connection that their caller has."""

from __future__ import annotations

from alembic import context

from fuzz.findings.tables import Base

context.configure(connection=context.config.attributes["connection"], target_metadata=Base.metadata)
context.run_migrations()
