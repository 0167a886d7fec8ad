"""`kernelfuzz buckets`: correcting by hand which failures count as one bug."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from fuzz.cli import options
from fuzz.cli.exits import Exit

if TYPE_CHECKING:
    from sqlalchemy import Engine

app = typer.Typer(help="Merge buckets of nights that are one bug, and split them again.", no_args_is_help=True)

Named = Annotated[
    str, typer.Argument(help="The beginning of a finding's name or digest, or a bucket's name.", show_default=False)
]


@dataclass(frozen=True)
class JoinOptions:
    """The options of `kernelfuzz buckets merge`."""

    store: options.StorePlace
    case: Named
    into: Named


def merge(options: JoinOptions) -> Exit:
    """Count the failures of one bucket as those of another, in all nights so far and to come.

    For example: kernelfuzz buckets merge STATE b88a1c 07d2fe
    """
    from fuzz.findings.database_store import join

    print(join(_opened(options.store), options.case, options.into))
    return Exit.OK


@dataclass(frozen=True)
class SplitOptions:
    """The options of `kernelfuzz buckets split`."""

    store: options.StorePlace
    case: Named


def split(options: SplitOptions) -> Exit:
    """Count a bucket by itself again that was merged into another by hand.

    For example: kernelfuzz buckets split STATE b88a1c
    """
    from fuzz.findings.database_store import separate

    print(separate(_opened(options.store), options.case))
    return Exit.OK


def _opened(store: str) -> Engine:
    """Return the database of a store or of a state folder. Raises StateError."""
    from fuzz.findings.database import open_store
    from fuzz.findings.state import latest_state

    return open_store(store if "://" in store else f"sqlite:///{latest_state(Path(store))}")


options.add_verbs(app, (merge, split))
