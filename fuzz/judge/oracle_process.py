"""The oracle in a process of its own: it judges one batch while this process draws another.

It is a process of `multiprocessing` and its pipe. An executor of `concurrent.futures` would pickle what is sent, start
threads here, wait at the end for a process that was stopped, and leave it behind where this process is killed.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from types import TracebackType

from fuzz.judge.messages import CaseQueries, decode_answers, decode_queries, encode_answers, encode_queries
from fuzz.judge.values import CaseOracle, Query
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
        self._asked: Mapping[CaseOracle, Sequence[Query]] = {}
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

    def ask(self, asked: Mapping[CaseOracle, Sequence[Query]]) -> None:
        """Ask about one batch. Returns once it is sent; `learn` must have been called since the last one."""
        assert not self._asked, "it may be busy sending answers, and would not listen"
        if asked and self._usable:
            with self._noticed():
                cases = [CaseQueries(oracle.values, queries) for oracle, queries in asked.items()]
                self._connection.send_bytes(encode_queries(cases, self._contracts))
                self._asked = asked

    def learn(self) -> None:
        """Wait for the answers to what was asked last, if anything was, and let those oracles know them."""
        asked, self._asked = self._asked, {}
        if asked and self._usable:
            with self._noticed():
                answers = self._connection.recv_bytes()
                if answers != _FAILED:
                    for (oracle, queries), found in zip(asked.items(), decode_answers(answers), strict=True):
                        oracle.known.update(zip(queries, found, strict=True))

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
        cases = decode_queries(message, contracts)
        del message  # as large as all tensors of a batch
        return encode_answers([_judged(case) for case in cases])
    except Exception:
        return _FAILED  # who asked will come upon the same error, and can say about which case


def _judged(case: CaseQueries) -> list[OutputCheck]:
    oracle = CaseOracle(case.values, dict.fromkeys(numerics for numerics, _ in case.queries))
    return [oracle.check(query) for query in case.queries]
