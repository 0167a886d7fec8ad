"""What a worker is told when it starts."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

MARGIN_BYTES = 16 * 1024
"""poisoned and checked on both sides of every tensor: wide, so that a kernel that strays by a row still lands in it."""


@dataclass(frozen=True)
class Spec:
    """The kernel to run, and where."""

    source: str
    """file with the text to run: the kernel's own, with its edits applied."""
    folder: str
    """where the kernel's source is, for its relative imports."""
    op: str
    entry: str
    framework: str
    device: str
    options: Mapping[str, str | int | float | bool]
    environment: Mapping[str, str]
    """variables that frameworks read: where to keep what they compile."""
    margin: int = MARGIN_BYTES

    @property
    def torch_device(self) -> str:
        return "cuda" if self.device == "cuda" else "cpu"

    def encoded(self) -> str:
        return json.dumps(asdict(self))


def decoded(text: str) -> Spec:
    """The spec that `encoded` wrote."""
    return Spec(**json.loads(text))


def source_digest(text: str, folder: Path) -> str:
    """Of the kernel's text and of every Python file beside it, which it may import."""
    digest = hashlib.sha256(text.encode())
    for path in sorted(folder.glob("*.py")):
        digest.update(b"\0" + path.name.encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()
