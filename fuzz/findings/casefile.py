"""Case files: readable JSON with exact bits and a digest. They run again without Hypothesis, under any NumPy."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any, cast

from fuzz.core.base.case import BIG, Case, CaseError, Origin, Shard
from fuzz.core.base.files import write_whole
from fuzz.core.base.validity import UnknownOpError, check_case, unknown_op
from fuzz.core.laws.law import LawCheck
from fuzz.core.laws.registry import LAWS
from fuzz.explain.explanation import Explanation
from fuzz.findings import document
from fuzz.findings.codec import decoded, encoded
from fuzz.findings.document import told
from oracles.algorithm import traced
from oracles.operand import AXIS
from oracles.ops import OPS

VERSION = 3
"""The version of the format; files of other versions are not read."""
_SHORT_LIST = re.compile(r"\[\s*(-?\d+(?:,\s*-?\d+)*)\s*\]")
"""Matches a list of integers, such as a shape, which json.dumps would spread over many lines."""
_MOST_HELD = 1 << 29
"""The most bytes of the inputs of all calls in a history."""
_MOST_CALLS = 1 << 16
"""The most calls of a history, repeated ones included."""


@dataclass(frozen=True)
class FoundRecord:
    """The record of how a case was found. It is for people and for `repro`, and not part of the digest."""

    target: str
    verdict: str
    run_seed: int
    version: str
    law: LawCheck | None = None
    """The law that the case breaks together with its twin, for FAIL_LAW."""
    explanation: Explanation | None = None
    """The explanation of the failure, if there is one."""
    original: str = ""
    """The digest of the case from which it was shrunk; '' if it was not."""
    history: tuple[Case, ...] = ()
    """The calls that must come before the case, in the same process, for it to fail."""
    formula: str = ""
    """A digest of the op's formula when the case was found; '' in older files."""

    def is_of_another_formula(self, case: Case) -> bool:
        """Whether the formula of the op, or of its reference, was changed since the case was found."""
        return bool(self.formula) and self.formula != formula_of(case.op)


def formula_of(name: str) -> str:
    """Return a digest of the op's formula."""
    op = OPS[name]
    return traced(op, [*(each.name for each in op.operands), *(each.name for each in op.parameters)]).digest


def save(path: Path, case: Case, found: FoundRecord | None = None) -> None:
    """Write a case file, completely or not at all."""
    write(path, to_json(case, found))


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object as `save` does. `from_json` ignores members that it does not know, such as 'about'."""
    text = json.dumps(record, indent=1)
    write_whole(path, _SHORT_LIST.sub(lambda found: f"[{', '.join(re.findall('-?[0-9]+', found[1]))}]", text) + "\n")


def load(path: Path) -> tuple[Case, FoundRecord | None]:
    """Return the case of a file, and the record of how it was found. A file may come from anybody, so the result holds
    only numbers within bounds, names that the op has, and printable words of one line. Raises CaseError, which names
    the file and the field, if the file is broken, was altered, or does not fit its op."""
    record = document.read(path)
    try:
        return from_json(record)
    except CaseError as error:
        raise type(error)(f"{path}: {error}") from error


def to_json(case: Case, found: FoundRecord | None = None) -> dict[str, Any]:
    """Return the JSON object of a case."""
    dims = document.dims_of(case)
    said = {AXIS} if any(dims.values()) else set()
    record: dict[str, Any] = {
        "kernelfuzz case": VERSION,
        "digest": case.digest,
        "op": case.op,
        "params": {name: _number(value) for name, value in case.params.items() if name not in said},
        "structured": case.structured,
        "inputs": {name: document.tensor_record(tensor, dims[name]) for name, tensor in case.inputs.items()},
        "outputs": {name: document.tensor_record(output, dims[name]) for name, output in case.outputs.items()},
        "origin": _origin(case.origin),
    }
    if found is not None:
        record["found"] = {name: getattr(found, name) for name in ("target", "verdict", "run_seed", "version")}
        if found.law is not None:
            key, seal = f"{found.law.key:016x}", found.law.seal(case)
            record["found"]["law"] = {"name": found.law.name, "key": key, "seal": seal}
        record["found"] |= {key: each for key in ("original", "formula") if (each := getattr(found, key))}
        if found.explanation is not None:
            record["found"]["explanation"] = encoded(found.explanation)
        if found.history:
            runs = [(call, len(list(equal))) for call, equal in groupby(found.history)]
            calls = [to_json(call) | ({"times": times} if times > 1 else {}) for call, times in runs]
            record["found"]["history"] = {"seal": _history_seal(case, found.history), "calls": calls}
    return record


def _history_seal(case: Case, history: Sequence[Case]) -> str:
    """Return a digest of the calls in their order, which reveals a lost one."""
    return hashlib.sha256("/".join(call.digest for call in (*history, case)).encode()).hexdigest()


def from_json(record: object) -> tuple[Case, FoundRecord | None]:
    """Return the case of a JSON object. Raises CaseError, which names the field, if the object is broken or altered."""
    top = document.as_object(record, "file")
    case = _checked_case(top)
    return case, _parse_found(top.get("found"), case)


def _checked_case(top: Mapping[str, Any]) -> Case:
    version = top.get("kernelfuzz case")
    if version is None:
        raise CaseError("not a case file: it has no field 'kernelfuzz case'")
    if version != VERSION:
        raise CaseError(f"kernelfuzz case: format {told(version)}, this kernelfuzz reads format {VERSION} alone")
    case, claimed = parsed_case(top), document.text(top, "digest", "digest")
    if claimed != case.digest:
        raise CaseError(f"digest: the file says {claimed[:12]}, its content is {case.digest[:12]}: it was altered")
    check_case(case)
    return case


def parsed_case(top: Mapping[str, Any]) -> Case:
    """Return the case of a JSON object without checking its digest or its op. Raises CaseError."""
    op = document.text(top, "op", "op")
    params = {name: _parse_number(value, f"params.{name}") for name, value in document.named(top, "params").items()}
    inputs, outputs = document.named(top, "inputs"), document.named(top, "outputs")
    if op not in OPS:
        raise UnknownOpError(f"op: {unknown_op(told(op))}")
    if AXIS in params:
        raise CaseError(f"params.{AXIS}: the dims of {OPS[op].main} say it")
    params[AXIS] = document.parse_axis(OPS[op], inputs)
    # The file's members may have any order, but a case has its first input first, since its properties come from it.
    places = {operand.name: place for place, operand in enumerate(OPS[op].operands)}
    inputs = dict(sorted(inputs.items(), key=lambda each: places.get(each[0], len(places))))
    case = Case(
        op=op,
        params=params,
        inputs=document.parse_inputs(inputs),
        outputs={name: document.parse_output(value, f"outputs.{name}") for name, value in outputs.items()},
        structured=document.flag(top, "structured"),
        origin=_parse_origin(document.as_object(top.get("origin", {}), "origin")),
    )
    document.check_dims(case, inputs, outputs)
    return case


def _origin(origin: Origin) -> dict[str, Any]:
    shard = {"shard": origin.shard} if origin.shard is not None else {}
    number = {"number": origin.number} if origin.number else {}
    return {"recipe": origin.recipe, "layout": origin.layout, "seed": origin.seed, **shard, **number}


def _number(value: float | int) -> int | dict[str, str]:
    return value if isinstance(value, int) else {"decimal": repr(value), "hex": float(value).hex()}


def _parse_number(value: object, where: str) -> float | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return document.small_integer(value, where)
    digits = document.as_object(value, where).get("hex")
    try:
        return float.fromhex(cast(str, digits))
    except (TypeError, ValueError, OverflowError) as error:
        raise CaseError(f"{where}.hex: {told(digits)} is not a hexadecimal number of a double") from error


def _parse_origin(record: Mapping[str, Any]) -> Origin:
    return Origin(
        document.text({"recipe": "", **record}, "recipe", "origin"),
        document.text({"layout": "", **record}, "layout", "origin"),
        document.integer(record.get("seed", 0), "origin"),
        document.integer(record.get("number", 0), "origin.number"),
        shard=_parse_shard(record.get("shard")),
    )


def _parse_shard(value: object) -> Shard | None:
    """Return the number of a shard, the word for the series of big cases, or None if no search made the case."""
    if value is None or value == BIG:
        return cast(Shard | None, value)
    return document.integer(value, "origin.shard")


def _parse_found(value: object, case: Case) -> FoundRecord | None:
    if value is None:
        return None
    record = document.as_object(value, "found")
    return FoundRecord(
        document.text(record, "target", "found"),
        document.text(record, "verdict", "found"),
        document.integer(record.get("run_seed"), "found.run_seed"),
        document.text(record, "version", "found"),
        _parse_law(record, case),
        _parse_explanation(record),
        document.text({"original": "", **record}, "original", "found"),
        _parse_history(record, case),
        document.text({"formula": "", **record}, "formula", "found"),
    )


def _parse_explanation(found: Mapping[str, Any]) -> Explanation | None:
    """Return the explanation in a file; None if there is none, or if an older version wrote it as lines of text."""
    record = found.get("explanation")
    return None if record is None or isinstance(record, list) else decoded(record, "found.explanation")


def _parse_law(found: Mapping[str, Any], case: Case) -> LawCheck | None:
    if "law" not in found:
        if found["verdict"] == "FAIL_LAW":
            raise CaseError("found.law: missing, so that there is no law to check")
        return None
    record = document.member(found, "law", "found.law")
    name, key = document.text(record, "name", "found.law"), document.text(record, "key", "found.law")
    if name not in LAWS:
        raise CaseError(f"found.law.name: unknown law {told(name)}; known: {', '.join(LAWS)}")
    if re.fullmatch("[0-9a-f]{16}", key) is None:
        raise CaseError(f"found.law.key: {told(key)} is not sixteen hexadecimal digits")
    check = LawCheck(LAWS[name], int(key, 16))
    if not check.law.applies(case):
        raise CaseError(f"found.law: {name} does not apply to this case")
    if document.text(record, "seal", "found.law") != check.seal(case):
        raise CaseError("found.law.seal: the law was altered, or this version makes another twin by it")
    return check


def _parse_history(found: Mapping[str, Any], case: Case) -> tuple[Case, ...]:
    if "history" not in found:
        return ()
    record = document.member(found, "history", "found.history")
    calls = record.get("calls")
    if not isinstance(calls, list) or not calls:
        raise CaseError("found.history.calls: missing, or not a list of cases")
    history, held = list[Case](), 0
    for place, call in enumerate(calls):
        where = f"found.history.calls[{place}]"
        parsed = _parse_call(call, where)
        times = document.integer(call.get("times", 1), f"{where}.times")
        if not 1 <= times <= _MOST_CALLS:
            raise CaseError(f"{where}.times: {times} is not from 1 to {_MOST_CALLS}")
        history += [parsed] * times
        held += sum(len(tensor.bits) for tensor in parsed.inputs.values())
        if held > _MOST_HELD:
            raise CaseError(f"found.history.calls: take more than {_MOST_HELD >> 20} MiB")
        if len(history) > _MOST_CALLS:
            raise CaseError(f"found.history.calls: more than {_MOST_CALLS} calls")
    if document.text(record, "seal", "found.history") != _history_seal(case, history):
        raise CaseError("found.history.seal: a call was altered, lost or moved")
    return tuple(history)


def _parse_call(record: object, where: str) -> Case:
    try:
        return _checked_case(document.as_object(record, "file"))
    except CaseError as error:
        raise CaseError(f"{where}: {error}") from error
