"""Case files that a store keeps: they are written to a folder where another machine found them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from fuzz.base.files import write_whole
from fuzz.findings.lookup import SHORTEST, fitting
from fuzz.findings.tables import KeptRow


def restore(engine: Engine, folder: Path) -> None:
    """Write every case file of the store that is not in the folder yet."""
    with Session(engine) as transaction:
        _write(transaction, folder, transaction.scalars(select(KeptRow.name)).all())


def fetch(engine: Engine, text: str, folder: Path) -> None:
    """Write the case files whose name or digest begins so, where they are not in the folder yet."""
    if len(text) < SHORTEST:
        return
    with Session(engine) as transaction:
        names = transaction.scalars(select(KeptRow.name)).all()
        _write(transaction, folder, [path.name for path in fitting(text, [Path(name) for name in names])])


def _write(transaction: Session, folder: Path, names: Iterable[str]) -> None:
    """A name that leads out of the folder is another's, and is left."""
    for name in names:
        path = folder / name
        if path.name == name and path.suffix == ".json" and not path.exists():
            content = transaction.scalar(select(KeptRow.content).filter_by(name=name))
            write_whole(path, content or "")
