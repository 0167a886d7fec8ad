"""What a store could not be told: a file in the folder of findings, until it can."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from fuzz.base.files import write_whole
from fuzz.findings.accuracy import Point, WorstRun
from fuzz.findings.position import Position
from fuzz.findings.store import Unsaved
from fuzz.generate.conditions import Together

_KIND, _VERSION = "kernelfuzz unsaved", 1


def unsaved_path(folder: Path, position: Position) -> Path:
    """Where a session keeps what its store could not be told."""
    return folder / f"night-{position.night}-session-{position.session}.unsaved"


def write_unsaved(path: Path, position: Position, batches: Sequence[Unsaved]) -> None:
    """Write these batches, of which the first may be saved already: nobody has told. Raises OSError."""
    where = {
        **{name: getattr(position, name) for name in ("night", "session", "slice", "epoch", "token", "saved")},
        "used_s": position.used_s,
        "slice_s": position.slice_s,
        "triage_s": position.triage_s,
    }
    record = {_KIND: _VERSION, **where, "batches": [_told(batch) for batch in batches]}
    write_whole(path, json.dumps(record, separators=(",", ":")) + "\n")


def read_unsaved(path: Path) -> tuple[Position, list[Unsaved]]:
    """What `write_unsaved` wrote. Raises ValueError for another file, and OSError."""
    record = json.loads(path.read_text(encoding="utf-8"))
    try:
        if record[_KIND] != _VERSION:
            raise ValueError(f"{path}: was written by another version of kernelfuzz")
        now = time.monotonic()
        position = Position(
            record["night"], record["session"], 0.0, now - record["used_s"], record["slice"], now - record["slice_s"],
            record["triage_s"], token=record["token"], epoch=record["epoch"], saved=record["saved"],
        )  # fmt: skip
        return position, [_batch(each, path.parent) for each in record["batches"]]
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path}: is not what a store was to be told") from error


def _told(batch: Unsaved) -> dict[str, Any]:
    counted = {name: list(getattr(batch, name).items()) for name in ("cases", "judged", "counts", "sightings")}
    return {
        **counted,
        **{name: getattr(batch, name) for name in ("reasons", "broken", "rows", "files", "merged")},
        "together": {op: together.record(op) for op, together in batch.together.items()},
        "accuracy": [[asdict(point), asdict(worst)] for point, worst in batch.accuracy.items()],
        "passed": sorted(batch.passed),
        "released": [path.name for path in batch.released],
    }


def _batch(told: dict[str, Any], folder: Path) -> Unsaved:
    counted: dict[str, Any] = {
        name: Counter({tuple(key): count for key, count in told[name]})
        for name in ("cases", "judged", "counts", "sightings")
    }
    return Unsaved(
        **counted,
        **{name: told[name] for name in ("reasons", "broken", "rows", "files")},
        merged=[(source, into) for source, into in told["merged"]],
        together={op: Together.of_record(op, record) for op, record in told["together"].items()},
        accuracy={Point(**point): WorstRun(**worst) for point, worst in told["accuracy"]},
        passed=set(told["passed"]),
        released=[folder / name for name in told["released"]],
    )
