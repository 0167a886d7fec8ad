"""What a machine and its store tell one another when one is opened: case files, and what was not saved before."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from sqlalchemy import Engine, select
from sqlalchemy.orm import Session

from fuzz.base.files import set_aside, write_whole
from fuzz.findings.database_store import DatabaseStore
from fuzz.findings.lookup import SHORTEST, fitting
from fuzz.findings.state import FencedError
from fuzz.findings.tables import KeptRow
from fuzz.findings.unsaved import read_unsaved


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


def told_again(engine: Engine, folder: Path) -> Iterator[str]:
    """Save what earlier processes could not tell this store, and remove their files; a line for each."""
    for path in sorted(folder.glob("*.unsaved")):
        try:
            position, batches = read_unsaved(path)
            store = DatabaseStore(engine, folder, position)
            store.load()
            trouble = store.take_in(batches)
            yield f"{path}: {f'not saved: {trouble}' if trouble else 'saved now'}"
            if not trouble:
                path.unlink()
        except FencedError as error:
            yield f"{path.name}: {error}"
            path.unlink()
        except ValueError as error:
            yield f"{error}; it is kept as {set_aside(path).name}"


def _write(transaction: Session, folder: Path, names: Iterable[str]) -> None:
    """A name that leads out of the folder is another's, and is left."""
    for name in names:
        path = folder / name
        if path.name == name and path.suffix == ".json" and not path.exists():
            content = transaction.scalar(select(KeptRow.content).filter_by(name=name))
            write_whole(path, content or "")
