"""Case files as strangers make them: real ones, with hostile values in their trees or with their text damaged."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from fuzz.campaign.corpus.folder import Kept, entries_of, load
from fuzz.campaign.reproducing import ChosenCase, write_script
from fuzz.core.adapters.target import Target
from fuzz.core.base.case import CaseError
from fuzz.core.base.errors import UsageError
from fuzz.core.base.verdict import Verdict
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.judge.judge import EntryJudge, Judgement
from fuzz.core.laws.registry import Entry
from fuzz.core.transport.frames import encode_case
from fuzz.findings import casefile
from fuzz.findings.codec import encoded
from fuzz.tests.common.hunting import PACK
from fuzz.tests.common.told import NOTHING
from fuzz.tests.conftest import CHECKOUT

CANARY = "PWNED"
"""Every hostile text tries to make a file of this name."""
_RUN = f"import os; os.system('touch {CANARY}')"

TEXTS = (
    f"looks harmless\n{_RUN}\n#",
    f"looks harmless\r{_RUN}\r#",
    f"x\u2028{_RUN}\u2029{_RUN}\x0c{_RUN}\x85{_RUN}\x0b{_RUN}\x1c{_RUN}",
    f"coding: unicode_escape \\n{_RUN}",
    f"-*- coding: utf-7 -*- +AAo-{_RUN}",
    f"'''\n{_RUN}\n'''",
    f'*/ __attribute__((constructor)) void pwn(void) {{ system("touch {CANARY}"); }} /*',
    f'*\\\n/ __attribute__((constructor)) void pwn(void) {{ system("touch {CANARY}"); }} /*',
    f'*??/\n/ __attribute__((constructor)) void pwn(void) {{ system("touch {CANARY}"); }} /*',
    f'**//*/ #include "/etc/passwd" \\\n#pragma GCC poison main\\\n??/\n{_RUN}',
    "x\n::error file=/etc/passwd,line=1::injected",
    "::stop-commands::token",
    ": ::set-env name=PATH::/tmp",
    "x ##[error]injected %0A::error::injected",
    "\x1b]0;owned\x07\x1b[2J\x9b31m\x7f\x00",
    "\u202eevil\u2066\u2069\u061c\u200f",
    "\ud800 lone \udfff",
    "[bold red]markup[/] [link=http://example.org]here[/link] :skull:",
    "<script>alert(1)</script> ]]> &amp; \" ' --> <![CDATA[",
    f"$(touch {CANARY}) `touch {CANARY}` ; touch {CANARY} | touch {CANARY} && touch {CANARY}",
    "../../../../etc/passwd",
    "%s%n{0}{self.__class__}{{}}",
    "A" * 20_000,
    "",
)
"""Explanations, names and numbers that are none."""

_LONG, _DEEP = "@long@", "@deep@"
_VALUES: tuple[Any, ...] = (
    *TEXTS,
    *(float("nan"), float("inf"), -float("inf"), 1e308, -0.0, 0.5, 1.0, 2.0),
    *(0, 1, -1, 2, 7, 64, 2**31, 2**32 + 37, 2**53 + 1, 2**62, 2**63 - 1, 2**63, -(2**63), 2**64, 2**70, -(2**70)),
    *(True, False, None, [], {}, [[]], [{}], {"": ""}, _LONG, _DEEP),
    *([2**62, 2**62, 0], [0], [0, 2**40], [2**40, 0], [1] * 1000, [2**31, 2**31, 2**31], [2**70], [-5], [1.0], [True]),
    *("0x1p99999", "-0x1p99999", "nan", "inf", "-inf", "0x1p-9999", "-0x1p0", "0x1p-1074", "0x", "1" * 5000, "1e5"),
    {"hex": "0x1p99999"}, {"hex": "nan"}, {"hex": "inf"}, {"hex": "-0x1p0"}, {"hex": "0x1.0p-1074"}, {"hex": 5},
    *("f16", "bf16", "f32", "f64", "after", "before", "x", "y", "weight", "rstd", "dy", "sum", "residual"),
    *("rms_norm", "fused_add_rms_norm", "rms_norm_backward", "FAIL_LAW", "FAIL_NUMERIC", "PASS", "CRASH"),
)  # fmt: skip
_EXTENTS = (0, 1, 2, 3, 5, 37, 65, 2**20, 2**31, 2**40, 2**62, -1)


def real_files() -> list[str]:
    """The texts of the small case files of the corpora."""
    paths = sorted((CHECKOUT / "corpora").rglob("*.json"))
    texts = [path.read_text(encoding="utf-8") for path in paths if path.stat().st_size < 6000]
    return [text for text in texts if '"kernelfuzz case"' in text]


def hostile_files(count: int, seed: int, texts: Sequence[str]) -> Iterator[bytes]:
    """Yield `count` mutated files, the same for the same seed."""
    chance = random.Random(seed)
    for _ in range(count):
        text = chance.choice(texts)
        if chance.random() < 0.7:
            yield _in_its_tree(chance, text, texts)
        else:
            yield _in_its_text(chance, text, texts)


def _in_its_tree(chance: random.Random, text: str, texts: Sequence[str]) -> bytes:
    record = json.loads(text)
    if chance.random() < 0.5:
        record.setdefault("found", {"target": "c-generic@native:gcc-O2", "verdict": "FAIL_NUMERIC", "run_seed": 1,
                                    "version": "1", "explanation": encoded(NOTHING)})  # fmt: skip
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        chance.choice(_CHANGES)(chance, record, texts)
    if chance.random() < 0.8:
        resealed(record)
    return _written(record)


def _written(record: Any) -> bytes:
    written = json.dumps(record)
    written = written.replace(f'"{_LONG}"', "9" * 5000).replace(f'"{_DEEP}"', "[" * 100_000 + "]" * 100_000)
    return written.encode("utf-8", "surrogatepass")


def resealed(record: Any) -> None:
    """Give it the digest that it would need, as far as it is a case at all: a stranger can calculate that too."""
    try:
        case = casefile.parsed_case(record)
    except CaseError:
        return
    record["digest"] = case.digest


def _places(node: Any) -> Iterator[tuple[Any, Any]]:
    """Every container with each of its keys."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in list(items):
        yield node, key
        yield from _places(value)


def _somewhere(chance: random.Random, record: Any) -> tuple[Any, Any]:
    return chance.choice([*_places(record), ({"": ""}, "")])  # the last where nothing is left


def _replace(chance: random.Random, record: Any, texts: Sequence[str]) -> None:
    node, key = _somewhere(chance, record)
    node[key] = deepcopy(chance.choice(_VALUES))  # a later change may write into it


def _lose(chance: random.Random, record: Any, texts: Sequence[str]) -> None:
    node, key = _somewhere(chance, record)
    del node[key]


def _rename(chance: random.Random, record: Any, texts: Sequence[str]) -> None:
    node, key = _somewhere(chance, record)
    if isinstance(node, dict):
        node[chance.choice([value for value in _VALUES if isinstance(value, str)])] = node.pop(key)


def _graft(chance: random.Random, record: Any, texts: Sequence[str]) -> None:
    node, key = _somewhere(chance, record)
    other, there = _somewhere(chance, json.loads(chance.choice(texts)))
    node[key] = other[there]


def _move(chance: random.Random, record: Any, texts: Sequence[str]) -> None:
    """Other shapes, strides and offsets, with bits that fit where that is possible."""
    tensors = [t for kind in ("inputs", "outputs") for t in _members(record.get(kind)).values() if isinstance(t, dict)]
    if not tensors:
        return
    tensor = chance.choice(tensors)
    what = chance.choice(("shape", "strides", "offset", "guard", "zlib"))
    if what == "offset":
        tensor["offset"] = chance.choice((0, 1, 3, 2**20, 2**31, 2**62, 2**70, -1))
    elif what == "guard":
        tensor["guard"] = chance.choice(("after", "before"))
    elif what == "zlib":
        tensor["zlib"] = chance.choice(("eJwDAAAAAAE=", "@@", 3, None, "", ["a"]))
    elif isinstance(tensor.get(what), list) and tensor[what]:
        numbers = _EXTENTS if what == "shape" else (0, 1, -1, 2, 2**31, 2**62, 2**63, 2**70, -(2**40))
        tensor[what][chance.randrange(len(tensor[what]))] = chance.choice(numbers)


def _speak(chance: random.Random, record: Any, texts: Sequence[str]) -> None:
    """Hostile words where words are free."""
    found = _members(record.get("found"))
    found[chance.choice(("target", "version", "original", "verdict"))] = chance.choice(TEXTS)
    found["explanation"] = [chance.choice(TEXTS) for _ in range(chance.randrange(4))]
    origin = _members(record.get("origin"))
    origin[chance.choice(("recipe", "layout"))] = chance.choice(TEXTS)
    record["about"] = {"bug": chance.choice(TEXTS), "why": chance.choice(TEXTS), "law": chance.choice(("rerun", "x"))}


def _repeat(chance: random.Random, record: Any, texts: Sequence[str]) -> None:
    """Calls before the case."""
    call = json.loads(chance.choice(texts))
    _members(record.get("found"))["history"] = {"seal": "0" * 64, "calls": [call] * chance.choice((0, 1, 2))}


def _members(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


_CHANGES: tuple[Callable[[random.Random, Any, Sequence[str]], None], ...] = (
    _replace, _replace, _replace, _lose, _rename, _graft, _move, _move, _speak, _repeat,
)  # fmt: skip


def _in_its_text(chance: random.Random, text: str, texts: Sequence[str]) -> bytes:
    data = bytearray(text.encode())
    for _ in range(chance.choice((1, 1, 2, 5))):
        how, place = chance.randrange(7), chance.randrange(max(1, len(data)))
        if how == 0 and data:
            data[place % len(data)] ^= 1 << chance.randrange(8)
        elif how == 1:
            del data[place:]
        elif how == 2:
            other = chance.choice(texts).encode()
            data[place:] = other[chance.randrange(len(other)) :]
        elif how == 3:
            data[place:place] = chance.choice(
                (b"\xff\xfe", b"\xef\xbb\xbf", b"\x00", b"NaN", b"-Infinity", b"1e999", b"[" * 5000)
            )
        elif how == 4:
            data[place:place] = data[place : place + chance.randrange(1, 200)]  # duplicate keys among them
        elif how == 5:
            del data[place : place + chance.randrange(1, 40)]
        else:
            data[place:place] = chance.choice(TEXTS).encode("utf-8", "surrogatepass")[:2000]
    return bytes(data)


def listing(folder: Path) -> Mapping[str, int]:
    """Every file below a folder, with its size."""
    return {str(path.relative_to(folder)): path.lstat().st_size for path in sorted(folder.rglob("*"))}


@dataclass
class Reader:
    """Reads hostile files as `repro` does, in one process: loads them, asks which kernels take them, encodes them for a
    worker; now and then it really replays one and exports its programs."""

    folder: Path
    pool: WorkerPool
    targets: Mapping[str, Target]
    """Those of the pool, by id: a kernel in C; beside it one in Python, whose programs are exported."""
    python: Target
    every: int
    """One in so many of those that load is replayed and exported."""
    seen: Counter[str] = field(default_factory=Counter)

    def read(self, content: bytes) -> None:
        """Read one file. Nothing but CaseError may come of it, with one line that names the file."""
        path = self.folder / "case.json"
        path.write_bytes(content)
        self.seen["files"] += 1
        try:
            kept = load(path)
        except CaseError as error:
            self._refused(str(error), path)
            return
        self.seen["loaded"] += 1
        entries = entries_of(kept)
        for entry in entries:
            encode_case(entry.case)
        takers = [kernel for kernel in PACK.kernels if kernel.capability.accepts(kept.case)]
        self.seen["taken by some kernel"] += bool(takers)
        if self.seen["loaded"] % self.every == 0:
            self._replay(entries)
            self._export(kept)

    def _refused(self, said: str, path: Path) -> None:
        self.seen["refused"] += 1
        assert said.startswith(f"{path}: "), said
        assert said.isprintable(), said
        assert len(said) < 3000, said

    def _replay(self, entries: Sequence[Entry]) -> None:
        for entry, outcomes in zip(entries, self.pool.submit([e.case for e in entries]).outcomes(), strict=True):
            for name in outcomes:
                judgement = EntryJudge(entry, outcomes).judge(self.targets[name])
                self.seen[f"replayed: {judgement.verdict.value}"] += 1
                assert judgement.reason.isprintable()

    def _export(self, kept: Kept) -> None:
        if kept.case.elements > 1000:  # each element of an output takes the oracle a while
            return
        found = kept.found
        chosen = ChosenCase(kept.case, found, found.law if found else None, found.history if found else ())
        for target in (*self.targets.values(), self.python):
            if not target.kernel.capability.accepts(kept.case):
                continue
            path = self.folder / f"repro{target.adapter.suffix}"
            judgement = Judgement(target.id, kept.case.digest, Verdict.FAIL_NUMERIC, reason=TEXTS[0])
            try:
                write_script(path, chosen, judgement, target)
            except UsageError:  # what no program can show
                self.seen["no program"] += 1
                continue
            self.seen[f"programs in {path.suffix[1:]}"] += 1
            if path.suffix == ".py":
                compile(path.read_bytes(), str(path), "exec")
            else:
                subprocess.run(["gcc", "-fsyntax-only", "-w", "-std=gnu11", str(path)], check=True)
            path.unlink()
