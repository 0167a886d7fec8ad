"""Records for programs: one JSON object on each line, written as things happen, and the environment."""

from __future__ import annotations

import json
import math
import os
import platform
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from importlib import metadata
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any

from fuzz.core.adapters.target import Attestation, NotRun
from fuzz.core.base import __version__
from fuzz.core.base.case import Case
from fuzz.core.base.errors import UsageError
from fuzz.core.base.feature import answer_words
from fuzz.core.base.git import commit_of
from fuzz.core.base.kernel import Kernel
from fuzz.core.generate.capabilities import Undeclared
from fuzz.core.generate.coverage import Ledger, said
from fuzz.core.generate.pairing import PairCoverage
from fuzz.core.judge.judge import Judgement
from fuzz.core.transport.python.attest import installed_version
from fuzz.findings.book import FindingBook
from fuzz.findings.tally import Observer, Tally

_DISTRIBUTIONS = ("numpy", "hypothesis", "mpmath", "gmpy2", "ml_dtypes", "torch", "triton")
"""The packages whose versions cases, values or kernels depend on."""


class RecordLog(Observer):
    """An observer that writes records to a file: 'environment', 'run' for each judged run, 'finding' for each bucket,
    and 'summary'. Without a path it writes nothing. Raises UsageError if the file cannot be opened."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._file = None if path is None else path.open("w", encoding="utf-8", buffering=1 << 16)
        except OSError as error:
            raise UsageError(f"--json {path}: cannot be written: {error.strerror}") from error
        self.trouble = ""
        """The reason why the file is incomplete; '' if it is complete. The session goes on in either case."""

    def __enter__(self) -> RecordLog:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        try:
            if self._file is not None:
                self._file.close()
        except OSError as error:
            self._stop(error)

    def header(self, run_seed: int, statuses: Mapping[str, Attestation | NotRun]) -> None:
        """Write the record of the environment and the targets."""
        targets = [{"target": name, **status_record(status)} for name, status in statuses.items()]
        self._write({"kind": "environment", "seed": run_seed, "environment": environment(), "targets": targets})

    @property
    def wanted(self) -> bool:
        """Whether anything is written."""
        return self._file is not None

    def judged(self, case: Case, judgements: Sequence[Judgement]) -> None:
        """Write one record for each judged run."""
        if self.wanted:
            for line in run_lines(case, judgements):
                self._write_line(line)

    def lines(self, records: Iterable[str]) -> None:
        """Write records of judged runs that were made in other processes."""
        for record in records:
            self._write_line(record)

    def note(self, kind: str, facts: Mapping[str, Any]) -> None:
        """Write a record of another kind."""
        self._write({"kind": kind, **facts})

    def progress(self, elapsed: float) -> None:
        """Flush the file, so that a killed run leaves its records."""
        if self._file is not None and not self.trouble:
            try:
                self._file.flush()
            except OSError as error:
                self._stop(error)

    def findings(self, book: FindingBook) -> None:
        """Write one record for each bucket, with its smallest case."""
        if not book.seen:
            return
        from fuzz.findings.casefile import to_json
        from fuzz.findings.codec import encoded

        for bucket in book.seen:
            self._write(
                {
                    "kind": "finding",
                    "kernel": bucket.kernel,
                    "verdict": bucket.verdict,
                    "count": bucket.count,
                    "targets": sorted(bucket.targets),
                    "explanation": encoded(bucket.told),
                    "case": to_json(bucket.case),
                    "history": [to_json(call) for call in bucket.history],
                }
            )

    def summary(
        self,
        tally: Tally,
        undeclared: Mapping[str, Mapping[str, Undeclared]],
        elapsed: float,
        pairs: Mapping[str, PairCoverage] = MappingProxyType({}),
    ) -> None:
        """Write the totals, as the last record. `undeclared` are the things that kernels do not declare, by op and
        kernel; `pairs` are the pairs of conditions that held together, by op, if they are wanted."""
        self._write(
            {
                "kind": "summary",
                "elapsed_s": round(elapsed, 3),
                "cases": tally.cases,
                "judged": tally.judged,
                "findings": tally.findings,
                "gave_up": tally.gave_up,
                "laws": tally.laws,
                "coverage": {op: _coverage(op, ledger) for op, ledger in tally.coverage.items()},
                "pairs": {op: each.record for op, each in pairs.items()},
                "unreachable": {
                    op: {kind.label(): answer_words(kind, values) for kind, values in of_op.beyond.items()}
                    for op, of_op in tally.corners.items()
                    if of_op.beyond
                },
                "undeclared": undeclared,
                "targets": [
                    {
                        "target": target.target,
                        "judged": target.judged,
                        "worst": {dtype: [worst.ratio, worst.where] for dtype, worst in target.worst.items()},
                        "findings": target.findings,
                        "not_run": target.not_run_reason,
                    }
                    for target in tally.targets.values()
                ],
            }
        )

    def _write(self, record: Mapping[str, Any]) -> None:
        self._write_line(_text(record))

    def _write_line(self, record: str) -> None:
        if self._file is not None and not self.trouble:
            try:
                self._file.write(record + "\n")
            except OSError as error:
                self._stop(error)

    def _stop(self, error: OSError) -> None:
        self.trouble = f"{self._path}: incomplete: {error.strerror}"


def run_lines(case: Case, judgements: Sequence[Judgement], name: str = "", *, twin: bool = False) -> Iterator[str]:
    """Yield one record for each judged run, as text. `name` is the name of the case in its search, as `repro` takes it;
    for a twin, that of the original case. The case is formatted once for all its runs, since formatting takes longer
    than judging a run."""
    facts = _text(
        {
            **({"twin_of" if twin else "name": name} if name else {}),
            "case": case.digest,
            "op": case.op,
            "params": dict(case.params),
            "recipe": case.origin.recipe,
            "tensors": {n: [t.dtype, list(t.layout.shape), list(t.layout.strides)] for n, t in case.inputs.items()},
        }
    )
    for judgement in judgements:
        verdict, ratio = judgement.verdict.value, _finite(judgement.ratio)
        parts = [_text({"kind": "run", "target": judgement.target, "verdict": verdict, "ratio": ratio}), facts]
        if judgement.law is not None:
            parts.append(_text({"law": judgement.law.name}))
        if judgement.reason:
            parts.append(_text({"reason": judgement.reason}))
        yield f"{{{','.join(part[1:-1] for part in parts)}}}"


def _text(record: Mapping[str, Any]) -> str:
    return json.dumps(record, separators=(",", ":"))


def write_record(path: Path | None, facts: Mapping[str, Any]) -> None:
    """Write one JSON object to the file, if there is a path. Raises OSError."""
    if path is not None:
        record = {"environment": environment(), **facts}
        path.write_text(json.dumps(record, indent=1) + "\n", encoding="utf-8")


def status_record(status: Attestation | NotRun) -> dict[str, Any]:
    """Return the attestation of a worker as data, or the reason why there is none."""
    if isinstance(status, NotRun):
        return {"runs": False, **{name: fact for name, fact in asdict(status).items() if fact}}
    facts = {name: sorted(fact) if isinstance(fact, frozenset) else fact for name, fact in asdict(status).items()}
    return {"runs": True, **facts}


def _coverage(op: str, ledger: Ledger) -> dict[str, Any]:
    """Return the counts and gaps of each kind of label."""
    gaps = ledger.gaps()
    found = dict[str, Any]()
    for kind, counts in ledger.counts.items():
        counted = dict(zip(answer_words(kind, counts), counts.values(), strict=True))
        found[said(op, kind)] = {"counts": counted, "gaps": answer_words(kind, gaps.get(kind, []))}
    return found


def _finite(value: float) -> float | str:
    """Return the value; an infinite one as a string, since JSON has no infinities."""
    return value if math.isfinite(value) else repr(value)


def environment(kernels: Iterable[Kernel] = (), folder: Path | None = None) -> dict[str, Any]:
    """Return the versions of packages, including those that the kernels name, the facts of the machine, and the commit
    that is checked out around the folder, or else around the first kernel's source. Host, user and paths are left
    out."""
    known = list(kernels)
    folder = folder or next((each.source.parent for each in known), None)
    named = {package: installed_version(package) for kernel in known for package in kernel.packages}
    return {
        "kernelfuzz": __version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": f"{platform.system()} {platform.release()}",
        "cpu": _cpu_model(),
        "processors": os.cpu_count(),
        "commit": commit_of(folder) if folder is not None else None,
        "packages": {**{name: _version(name) for name in _DISTRIBUTIONS}, **named},
    }


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - a kernel file, read once
            return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), "unknown")
    except OSError:
        return platform.processor() or "unknown"
