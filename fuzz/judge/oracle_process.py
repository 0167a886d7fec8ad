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

from fuzz.judge.values import CaseOracle, Query
from fuzz.judge.wire import CaseQueries, decode_answers, decode_queries, encode_answers, encode_queries
from oracles.numerics import Numerics
from oracles.truth import OutputCheck

_FAILED = b""
"""This is sent in place of answers that could not be found."""
_FORK = multiprocessing.get_context("fork")
"""It inherits what is imported here. A new interpreter would take half a second to come as far."""


class OracleProcess:
    """A context manager that answers the queries of batches, one batch at a time.

    It only saves time: where the process ended or fails, `learn` brings no answers, and the caller's own judging finds
    them, or comes upon the same error.

    It must be entered before threads are started: the process is forked, and a lock that another thread holds at that
    moment would be held in it for ever.
    """

    def __init__(self, contracts: Iterable[Numerics]) -> None:
        """`contracts` are all that queries will name."""
        self.trouble = ""
        """Why there is no such process any more, in one line; '' where nothing is wrong."""
        self._usable = False
        self._contracts = tuple(dict.fromkeys(contracts))
        self._asked: Mapping[CaseOracle, Sequence[Query]] = {}
        self._connection, self._theirs = _FORK.Pipe()
        self._process = _FORK.Process(target=self._serve, name="oracle", daemon=True)

    @property
    def pid(self) -> int | None:
        """The process's id; None where it could not be started."""
        return self._process.pid

    def __enter__(self) -> OracleProcess:
        with warnings.catch_warnings():
            # Python 3.12 warns of threads; these are of NumPy's linear algebra, which prepares for a fork.
            warnings.simplefilter("ignore", DeprecationWarning)
            with self._guarded("could not be started"):
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
        """Send the queries of one batch. `learn` must have been called since the last one was sent."""
        assert not self._asked, "the process may be sending answers, and would not receive: both would wait for ever"
        if asked and self._usable:
            with self._guarded():
                cases = [CaseQueries(oracle.values, queries) for oracle, queries in asked.items()]
                self._connection.send_bytes(encode_queries(cases, self._contracts))
                self._asked = asked

    def learn(self) -> None:
        """Wait for the answers to the queries that were sent last, if any were, and let their oracles know them."""
        asked, self._asked = self._asked, {}
        if asked and self._usable:
            with self._guarded():
                answers = self._connection.recv_bytes()
                if answers != _FAILED:
                    for (oracle, queries), found in zip(asked.items(), decode_answers(answers), strict=True):
                        oracle.known.update(zip(queries, found, strict=True))

    @contextmanager
    def _guarded(self, what: str = "was ended from outside") -> Iterator[None]:
        """A message that breaks off, for whatever reason, ends the use of the process: what comes next would be taken
        for the rest of it. Where the process is the reason, `trouble` says so."""
        self._usable = False
        try:
            yield
        except (EOFError, OSError):
            self.trouble = f"the oracle's own process {what}; judging went on without it, slower"
        else:
            self._usable = True

    def _serve(self) -> None:
        """Answer until the connection is closed at its other end."""
        self._connection.close()  # while this copy of that end is open, its closing is not seen
        # Keyboards and CI send a stop to a whole process group; the caller wants its last batch judged first.
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGALRM):
            signal.signal(number, signal.SIG_DFL)
        with suppress(EOFError, OSError):
            while True:
                self._theirs.send_bytes(_answers(self._theirs, self._contracts))


def _answers(connection: Connection, contracts: Sequence[Numerics]) -> bytes:
    """The answers to the next message. Raises EOFError or OSError where there is none."""
    message = connection.recv_bytes()
    try:
        cases = decode_queries(message, contracts)
        del message  # as large as all tensors of a batch
        return encode_answers([_judged(case) for case in cases])
    except Exception:
        return _FAILED  # the caller will come upon the same error, and can say about which case


def _judged(case: CaseQueries) -> list[OutputCheck]:
    oracle = CaseOracle(case.values, dict.fromkeys(numerics for numerics, _ in case.queries))
    return [oracle.check(query) for query in case.queries]
