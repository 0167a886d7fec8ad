"""The oracle in a process of its own: it judges one batch while this process draws another."""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import TracebackType

from fuzz.judge.messages import Question, decode_answers, decode_questions, encode_answers, encode_questions
from fuzz.judge.values import Asked, Checks
from oracles.numerics import Numerics
from oracles.truth import OutputCheck

_FAILED = b""
"""in place of answers."""
_FORK = multiprocessing.get_context("fork")
"""nothing is sent to a new interpreter, which would take half a second to come as far."""


class OracleProcess:
    """Answers what it is asked about batches, one batch at a time. A context manager.

    It is a help, and nothing rests on it: once it is gone, or where it fails, nothing is learned from it, and whoever
    asked judges by himself, or comes upon the same error.

    It must be entered before threads are started: it is forked, and a lock that another thread holds at that moment
    would be held in it for ever.
    """

    def __init__(self, contracts: Iterable[Numerics]) -> None:
        """`contracts`: all that will be asked about."""
        self.trouble = ""
        """why there is no such process any more, in one line; '' where nothing is wrong."""
        self._usable = False
        self._contracts = tuple(dict.fromkeys(contracts))
        self._asked: Mapping[Checks, Sequence[Asked]] = {}
        self._connection, self._theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=self._serve, name="oracle", daemon=True)

    @property
    def pid(self) -> int | None:
        """Of the process; None where it could not be started."""
        return self._process.pid

    def __enter__(self) -> OracleProcess:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads; these are of NumPy's linear algebra, which prepares for a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            with self._noticed("could not be started"):
                self._process.start()
        self._theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._connection.close()
        if self._process.pid is not None:
            self._process.kill()
            self._process.join()

    def ask(self, asked: Mapping[Checks, Sequence[Asked]]) -> None:
        """Ask about one batch. Returns once it is sent; `learn` must have been called since the last one."""
        assert not self._asked, "it may be busy sending answers, and would not listen"
        if asked and self._usable:
            with self._noticed():
                questions = [Question(checks.values, wanted) for checks, wanted in asked.items()]
                self._connection.send_bytes(encode_questions(questions, self._contracts))
                self._asked = asked

    def learn(self) -> None:
        """Wait for the answers to what was asked last, if anything was, and let those checks know them."""
        asked, self._asked = self._asked, {}
        if asked and self._usable:
            with self._noticed():
                answers = self._connection.recv_bytes()
                if answers != _FAILED:
                    for (checks, wanted), found in zip(asked.items(), decode_answers(answers), strict=True):
                        checks.known.update(zip(wanted, found, strict=True))

    @contextmanager
    def _noticed(self, what: str = "was ended from outside") -> Iterator[None]:
        """What breaks off in the middle of a message, for whatever reason, cannot go on; a reason that is nobody's
        wish is told."""
        self._usable = False
        try:
            yield
        except (EOFError, OSError):
            self.trouble = f"the oracle's own process {what}; judging went on without it, slower"
        else:
            self._usable = True

    def _serve(self) -> None:
        """Answer until nobody asks any more. What `__enter__` does to its side is done to the other one here."""
        self._connection.close()  # while it is open here, nobody hears that it was closed there
        # Keyboards and CI tell a whole group to stop; who asks wants what he asked to be judged first.
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        with suppress(EOFError, OSError):
            while True:
                self._theirs.send_bytes(_answers(self._theirs, self._contracts))


def _answers(connection: Connection, contracts: Sequence[Numerics]) -> bytes:
    """To the next message. Raises EOFError or OSError where there is none."""
    message = connection.recv_bytes()
    try:
        questions = decode_questions(message, contracts)
        del message  # as large as all tensors of a batch
        return encode_answers([_judged(question) for question in questions])
    except Exception:
        return _FAILED  # who asked will come upon the same error, and can say about which case


def _judged(question: Question) -> list[OutputCheck]:
    checks = Checks(question.values, dict.fromkeys(numerics for numerics, _ in question.asked))
    return [checks.worst(asked) for asked in question.asked]
