"""Answers that a kernel forges on its worker's pipes: a worker that is none, and what it says, changed at random."""

from __future__ import annotations

import os
import random
import select
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.target import Attestation, Target
from fuzz.core.base.outcome import Change, Outcome, Status
from fuzz.core.execute.blame import Blame
from fuzz.core.execute.worker import Conduct, Encoded, Worker
from fuzz.core.judge.judge import Judge
from fuzz.core.transport import records
from fuzz.core.transport.frames import encode_case
from fuzz.core.transport.process import Process
from fuzz.core.transport.python.answer import Answer, respond
from fuzz.core.transport.steps import Pause, Steps
from fuzz.tests.common.planted import a_case
from fuzz.tests.common.python_planted import python_target

_NO_PROCESS = 1 << 23
"""The number of a process that no system has."""
_MOST_PAUSES = 10_000


@dataclass
class Forger:
    """A process that says some things, one each time that somebody waits for it, and then ends."""

    says: Iterator[bytes]
    given: int
    out: int
    pid: int = _NO_PROCESS

    def speak(self) -> None:
        """Say the next thing."""
        said = next(self.says, None) if self.out >= 0 else None
        if said is None:
            self.terminate()
        else:
            os.write(self.out, said)

    def terminate(self) -> None:
        """Close its ends."""
        if self.out >= 0:
            os.close(self.given)
            os.close(self.out)
        self.out = -1

    kill = terminate

    def wait(self, timeout: float | None = None) -> int:
        """Return its exit code."""
        self.terminate()
        return 0


@dataclass
class ForgedProgram:
    """Starts forgers, of which each says what the next of `speeches` has."""

    target: Target
    builder: Builder
    speeches: Iterator[Sequence[bytes]]
    forger: Forger | None = field(default=None, init=False)
    household = order = ""

    def process(self, limit: float) -> Process:
        """Start one."""

        def start(stdin: int, stdout: int, stderr: int) -> Forger:
            self.forger = Forger(filter(None, next(self.speeches)), os.dup(stdin), os.dup(stdout))
            return self.forger

        return Process(start, limit, None, sandboxed=True)  # or what it says would be done to a process of that number

    def bystander(self) -> None:
        """Return nothing: nothing stands between it and this machine."""

    def attested(self, hello: str) -> Attestation:
        """Return what a worker in Python said of itself."""
        return self.target.adapter.program(self.target, self.builder).attested(hello)

    def driven(self, steps: Steps[list[Outcome]]) -> list[Outcome]:
        """Take the steps. Where something is waited for, the forger says its next thing."""
        try:
            pause: Pause = next(steps)
            for _ in range(_MOST_PAUSES):
                if pause.events == select.POLLIN and self.forger is not None:
                    self.forger.speak()
                pause = steps.send(True)
        except StopIteration as end:
            found: list[Outcome] = end.value
            return found
        raise AssertionError("it waits for ever")


CASES = tuple(a_case(bits=(np.arange(12, dtype="<f4") + k).tobytes()) for k in range(3))
_RIGHT = tuple(each.inputs["x"].bits for each in CASES)
"""What their outputs are: nothing else passes here."""


def hello_of(target: Target, builder: Builder) -> bytes:
    """Return the hello of a worker in Python, as one that forges it would write it."""
    program = target.adapter.program(target, builder)
    words = {
        "digest": program.digest, "pid": "77", "python": "3", "numpy": "2", "packages": "{}", "variables": "{}",  # type: ignore[attr-defined]
        "device": "cpu", "processor": "none", "mode": "numpy", "choices": "[]", "configurations": "[]",
    }  # fmt: skip
    text = "\n".join(f"{name}={value}" for name, value in words.items()).encode()
    return records.HELLO.pack(records.HELLO_MAGIC, len(text)) + text


def true_answers() -> list[bytes]:
    """Return an answer to each case: one as most are, one with all that may follow, one that was refused."""
    held = np.zeros(12, bool)
    held[3] = True
    damage = records.DAMAGE.pack(0, 0, 1, 2, 5, 3)
    more = Answer(records.RAN, {"y": _RIGHT[1]}, (damage,), {"y": held})
    return [
        respond(0, CASES[0], Answer(records.RAN, {"y": _RIGHT[0]}, (), {}), None),
        respond(1, CASES[1], more, None, (Change("folder", "another one"),)),
        respond(2, CASES[2], Answer(records.REJECTED, {}, (), {}, "no"), None),
    ]


def changed(answers: Sequence[bytes], rng: random.Random) -> bytes:
    """Return answers in one stream, with one thing changed at random, or two."""
    stream = b"".join(answers)
    for _ in range(rng.choice((1, 1, 2))):
        stream = rng.choice(_CHANGES)(stream, answers, rng)
    return stream


def _flipped(stream: bytes, answers: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.randrange(len(stream) + 1)
    return stream[:at] + bytes(each ^ 1 << rng.randrange(8) for each in stream[at : at + 1]) + stream[at + 1 :]


def _cut(stream: bytes, answers: Sequence[bytes], rng: random.Random) -> bytes:
    return stream[: rng.randrange(len(stream) + 1)]


def _extended(stream: bytes, answers: Sequence[bytes], rng: random.Random) -> bytes:
    at = rng.choice((len(stream), rng.randrange(len(stream) + 1)))
    return stream[:at] + rng.randbytes(rng.randrange(1, 80)) + stream[at:]


def _repeated(stream: bytes, answers: Sequence[bytes], rng: random.Random) -> bytes:
    start, end = sorted((rng.randrange(len(stream) + 1), rng.randrange(len(stream) + 1)))
    return stream[:end] + stream[start:end] + stream[end:]


def _extreme(stream: bytes, answers: Sequence[bytes], rng: random.Random) -> bytes:
    """A field of a header: magic, place, size, and so on."""
    field_at, size = rng.choice(
        (
            (0, 4),
            (4, 4),
            (8, 4),
            (12, 1),
            (13, 1),
            (14, 1),
            (15, 1),
            (16, 8),
            (24, 8),
            (32, 2),
            (34, 2),
            (36, 4),
            (40, 4),
        )
    )
    at = rng.choice((0, *(sum(map(len, answers[: k + 1])) for k in range(2)))) + field_at
    limit = 1 << 8 * size
    value = rng.choice((0, 1, 2, 255, limit - 1, limit // 2, limit // 2 - 1, rng.randrange(limit))) % limit
    return stream[:at] + value.to_bytes(size, "little") + stream[at + size :]


def _reordered(stream: bytes, answers: Sequence[bytes], rng: random.Random) -> bytes:
    return b"".join(rng.choices(answers, k=rng.randrange(6)))


_CHANGES: tuple[Callable[[bytes, Sequence[bytes], random.Random], bytes], ...] = (
    _flipped, _flipped, _cut, _extended, _repeated, _extreme, _extreme, _extreme, _reordered,
)  # fmt: skip


def forge(folder: Path, count: int, seed: int) -> None:
    """Judge `count` kernels that forge. Whatever one does, each case has an outcome that can be judged, and what passes
    is what is right."""
    target = python_target(folder, "def rms_norm(x, y, eps, axis):\n    y[...] = x\n", "numpy", untrusted=True)
    builder, rng, answers = Builder(folder / "cache"), random.Random(seed), true_answers()
    hello, encoded = hello_of(target, builder), [Encoded(each, encode_case(each), []) for each in CASES]

    def speeches() -> Iterator[Sequence[bytes]]:
        while True:
            said = changed(answers if rng.random() < 0.6 else answers[:1], rng)
            first = changed([hello, hello, hello], rng)[: len(hello)] if rng.random() < 0.1 else hello
            at = rng.choice((0, len(said), rng.randrange(len(said) + 1)))
            yield first, said[:at], said[at:]

    passed = 0
    for _ in range(count):
        conduct = Conduct()
        program = ForgedProgram(target, builder, speeches())
        worker = Worker(target, program, 5.0, conduct)
        try:
            outcomes = program.driven(Blame(worker, conduct).run(encoded))
        finally:
            worker.close()
        assert len(outcomes) == len(CASES)
        for case, right, outcome in zip(CASES, _RIGHT, outcomes, strict=True):
            verdict, _ = Judge(case).apart_from_values(outcome)
            assert outcome.status is not Status.OURS
            passed += verdict is None and outcome.outputs["y"] == right
    assert passed > count // 10, "some are as they were"
