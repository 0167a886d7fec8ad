"""Case files: readable JSON with exact bits and a digest. They replay without Hypothesis and under any NumPy."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
import re
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from fuzz.case import ITEMSIZE, Case, CaseError, Guard, Layout, Origin, Output, Tensor
from fuzz.laws.law import LawCheck
from fuzz.laws.registry import LAWS

VERSION = 1
WITH_HISTORY = 2
"""format of a file with a history: a version that knew nothing of it would replay the case without."""
_READABLE_BYTES = 4096
"""tensors up to this size are written as hex words, larger ones compressed."""
_WORDS_PER_LINE = 16
_SHORT_LIST = re.compile(r"\[\s*(-?\d+(?:,\s*-?\d+)*)\s*\]")
"""lists of integers: shapes and strides, which json.dumps would spread over many lines."""


@dataclass(frozen=True)
class Found:
    """What was seen when the case was found. For people and for `repro`; not part of the digest."""

    target: str
    verdict: str
    run_seed: int
    version: str
    law: LawCheck | None = None
    """for FAIL_LAW: the law that the case breaks together with its twin."""
    explanation: tuple[str, ...] = ()
    """what is known of the failure, in lines."""
    original: str = ""
    """digest of the case that this one was shrunk from."""
    history: tuple[Case, ...] = ()
    """the calls that must come before the case, in the same process, for it to fail."""


def save(path: Path, case: Case, found: Found | None = None) -> None:
    """Write a case file. It appears whole or not at all: a full disk or a kill leaves no half file."""
    write(path, to_json(case, found))


def write(path: Path, record: Mapping[str, Any]) -> None:
    """Write a JSON object as `save` does; `from_json` ignores members that it does not know, such as 'about'."""
    text = _SHORT_LIST.sub(_on_one_line, json.dumps(record, indent=1)) + "\n"
    temporary = path.with_suffix(f".{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary.write_text(text, encoding="utf-8")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def load(path: Path) -> tuple[Case, Found | None]:
    """Read a case file; CaseError, naming the file and the field, if it is broken or was altered."""
    try:
        record = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CaseError(f"{path}: cannot be read: {error.strerror}") from error
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise CaseError(f"{path}: not a case file: {error}") from error
    try:
        return from_json(record)
    except CaseError as error:
        raise CaseError(f"{path}: {error}") from error


def to_json(case: Case, found: Found | None = None) -> dict[str, Any]:
    """The JSON object of a case."""
    record: dict[str, Any] = {
        "kernelfuzz case": VERSION,
        "digest": case.digest,
        "op": case.op,
        "params": {name: _number(value) for name, value in case.params.items()},
        "structured": case.structured,
        "inputs": {name: _tensor(tensor) for name, tensor in case.inputs.items()},
        "outputs": {name: _output(output) for name, output in case.outputs.items()},
        "origin": _origin(case.origin),
    }
    if found is not None:
        record["found"] = {
            "target": found.target,
            "verdict": found.verdict,
            "run_seed": found.run_seed,
            "version": found.version,
        }
        if found.law is not None:
            key, seal = f"{found.law.key:016x}", found.law.seal(case)
            record["found"]["law"] = {"name": found.law.name, "key": key, "seal": seal}
        if found.original:
            record["found"]["original"] = found.original
        if found.explanation:
            record["found"]["explanation"] = list(found.explanation)
        if found.history:
            record["kernelfuzz case"] = WITH_HISTORY
            calls = [to_json(call) for call in found.history]
            record["found"]["history"] = {"seal": _history_seal(case, found.history), "calls": calls}
    return record


def _history_seal(case: Case, history: Sequence[Case]) -> str:
    """A digest of the calls in their order: none may be lost."""
    return hashlib.sha256("/".join(call.digest for call in (*history, case)).encode()).hexdigest()


def from_json(record: object) -> tuple[Case, Found | None]:
    """The case of a JSON object; CaseError naming the field if it is broken, or if the digest does not match."""
    top = _object(record, "file")
    version = top.get("kernelfuzz case")
    if version is None:
        raise CaseError("not a case file: it has no field 'kernelfuzz case'")
    if version not in (VERSION, WITH_HISTORY):
        known = f"{VERSION}, {WITH_HISTORY}"
        raise CaseError(f"kernelfuzz case: format {version!r} is not one that this version reads ({known})")
    case = Case(
        op=_text(top, "op", "op"),
        params={name: _parse_number(v, f"params.{name}") for name, v in _member(top, "params", "params").items()},
        inputs=_parse_inputs(_member(top, "inputs", "inputs")),
        outputs={name: _parse_output(v, f"outputs.{name}") for name, v in _member(top, "outputs", "outputs").items()},
        structured=_flag(top, "structured"),
        origin=_parse_origin(_object(top.get("origin", {}), "origin")),
    )
    claimed = _text(top, "digest", "digest")
    if claimed != case.digest:
        raise CaseError(f"digest: the file says {claimed[:12]}, its content is {case.digest[:12]}: it was altered")
    return case, _parse_found(top.get("found"), case)


def _origin(origin: Origin) -> dict[str, Any]:
    number = {"number": origin.number} if origin.number else {}
    return {"recipe": origin.recipe, "layout": origin.layout, "seed": origin.seed, **number}


def _on_one_line(numbers: re.Match[str]) -> str:
    return "[" + ", ".join(numbers[1].replace(",", " ").split()) + "]"


def _number(value: float | int) -> int | dict[str, str]:
    return value if isinstance(value, int) else {"decimal": repr(value), "hex": float(value).hex()}


def _layout(layout: Layout) -> dict[str, Any]:
    return {
        "shape": list(layout.shape),
        "strides": list(layout.strides),
        "guard": layout.guard,
        "offset": layout.offset,
    }


def _tensor(tensor: Tensor) -> dict[str, Any]:
    if tensor.alias is not None:  # the bits are those of the other
        return {"dtype": tensor.dtype, **_layout(tensor.layout), "alias": tensor.alias}
    return {"dtype": tensor.dtype, **_layout(tensor.layout), **_bits(tensor)}


def _output(output: Output) -> dict[str, Any]:
    return {"dtype": output.dtype, **_layout(output.layout), "alias": output.alias}


def _bits(tensor: Tensor) -> dict[str, Any]:
    if len(tensor.bits) > _READABLE_BYTES:
        return {"zlib": base64.b64encode(zlib.compress(tensor.bits, 9)).decode()}
    itemsize = ITEMSIZE[tensor.dtype]
    words = [tensor.bits[i : i + itemsize][::-1].hex() for i in range(0, len(tensor.bits), itemsize)]
    return {"bits": [" ".join(words[i : i + _WORDS_PER_LINE]) for i in range(0, len(words), _WORDS_PER_LINE)]}


def _parse_bits(record: Mapping[str, Any], where: str) -> bytes:
    try:
        if "zlib" in record:
            return zlib.decompress(base64.b64decode(record["zlib"], validate=True))
        words = " ".join(record["bits"]).split()
        return b"".join(bytes.fromhex(word)[::-1] for word in words)
    except (KeyError, TypeError, ValueError, zlib.error, binascii.Error) as error:
        raise CaseError(f"{where}.bits: cannot be decoded: {error}") from error


def _parse_layout(record: Mapping[str, Any], where: str) -> Layout:
    guard = record.get("guard")
    if guard not in ("after", "before"):
        raise CaseError(f"{where}.guard: {guard!r} is neither 'after' nor 'before'")
    try:
        return Layout(
            _integers(record, "shape", where),
            _integers(record, "strides", where),
            cast(Guard, guard),
            _integer(record.get("offset"), f"{where}.offset"),
        )
    except CaseError as error:
        text = str(error)
        raise CaseError(text if text.startswith(where) else f"{where}.{text}") from error


def _parse_inputs(records: Mapping[str, Any]) -> dict[str, Tensor]:
    """Inputs that share the memory of another one are written without bits."""
    inputs: dict[str, Tensor] = {}
    for name, value in records.items():
        record, where = _object(value, f"inputs.{name}"), f"inputs.{name}"
        alias = _parse_alias(record, where)
        if alias is not None and alias not in inputs:
            raise CaseError(f"{where}.alias: there is no input {alias!r} before it")
        inputs[name] = _parse_tensor(record, where, alias, inputs[alias].bits if alias is not None else None)
    return inputs


def _parse_tensor(record: Mapping[str, Any], where: str, alias: str | None, shared: bytes | None) -> Tensor:
    layout = _parse_layout(record, where)
    bits = _parse_bits(record, where) if shared is None else shared
    try:
        return Tensor(_text(record, "dtype", where), layout, bits, alias)
    except CaseError as error:
        raise CaseError(f"{where}.{error}") from error


def _parse_output(value: object, where: str) -> Output:
    record = _object(value, where)
    alias = _parse_alias(record, where)
    try:
        return Output(_text(record, "dtype", where), _parse_layout(record, where), alias)
    except CaseError as error:
        text = str(error)
        raise CaseError(text if text.startswith(where) else f"{where}.{text}") from error


def _parse_alias(record: Mapping[str, Any], where: str) -> str | None:
    alias = record.get("alias")
    if alias is not None and not isinstance(alias, str):
        raise CaseError(f"{where}.alias: {alias!r} is not the name of an input")
    return alias


def _parse_number(value: object, where: str) -> float | int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    text = _object(value, where).get("hex")
    try:
        return float.fromhex(cast(str, text))
    except (TypeError, ValueError) as error:
        raise CaseError(f"{where}.hex: {text!r} is not a hexadecimal number") from error


def _parse_origin(record: Mapping[str, Any]) -> Origin:
    return Origin(
        str(record.get("recipe", "")),
        str(record.get("layout", "")),
        _integer(record.get("seed", 0), "origin"),
        _integer(record.get("number", 0), "origin.number"),
    )


def _parse_found(value: object, case: Case) -> Found | None:
    if value is None:
        return None
    record = _object(value, "found")
    return Found(
        _text(record, "target", "found"),
        _text(record, "verdict", "found"),
        _integer(record.get("run_seed"), "found.run_seed"),
        _text(record, "version", "found"),
        _parse_law(record, case),
        _lines(record.get("explanation", []), "found.explanation"),
        _text({"original": "", **record}, "original", "found"),
        _parse_history(record, case),
    )


def _parse_law(found: Mapping[str, Any], case: Case) -> LawCheck | None:
    if "law" not in found:
        if found["verdict"] == "FAIL_LAW":
            raise CaseError("found.law: missing, so that there is no law to replay")
        return None
    record = _member(found, "law", "found.law")
    name, key = _text(record, "name", "found.law"), _text(record, "key", "found.law")
    if name not in LAWS:
        raise CaseError(f"found.law.name: unknown law {name!r}; known: {', '.join(LAWS)}")
    if re.fullmatch("[0-9a-f]{16}", key) is None:
        raise CaseError(f"found.law.key: {key!r} is not sixteen hexadecimal digits")
    check = LawCheck(LAWS[name], int(key, 16))
    if not check.law.applies(case):
        raise CaseError(f"found.law: {name} does not apply to this case")
    if _text(record, "seal", "found.law") != check.seal(case):
        raise CaseError("found.law.seal: the law was altered, or this version makes another twin by it")
    return check


def _lines(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(line, str) for line in value):
        raise CaseError(f"{where}: not a list of lines")
    return tuple(value)


def _parse_history(found: Mapping[str, Any], case: Case) -> tuple[Case, ...]:
    if "history" not in found:
        return ()
    record = _member(found, "history", "found.history")
    calls = record.get("calls")
    if not isinstance(calls, list) or not calls:
        raise CaseError("found.history.calls: missing, or not a list of cases")
    history = tuple(_parse_call(call, f"found.history.calls[{place}]") for place, call in enumerate(calls))
    if _text(record, "seal", "found.history") != _history_seal(case, history):
        raise CaseError("found.history.seal: a call was altered, lost or moved")
    return history


def _parse_call(record: object, where: str) -> Case:
    try:
        call, _ = from_json(record)
    except CaseError as error:
        raise CaseError(f"{where}: {error}") from error
    return call


def _object(value: object, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise CaseError(f"{where}: expected an object, found {type(value).__name__}")
    return value


def _member(record: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    return _object(record.get(name), where)


def _text(record: Mapping[str, Any], name: str, where: str) -> str:
    value = record.get(name)
    if not isinstance(value, str):
        raise CaseError(f"{where if where == name else f'{where}.{name}'}: missing, or not a string")
    return value


def _flag(record: Mapping[str, Any], name: str) -> bool:
    value = record.get(name)
    if not isinstance(value, bool):
        raise CaseError(f"{name}: missing, or neither true nor false")
    return value


def _integer(value: object, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise CaseError(f"{where}: {value!r} is not an integer")
    return value


def _integers(record: Mapping[str, Any], name: str, where: str) -> tuple[int, ...]:
    value = record.get(name)
    if not isinstance(value, list):
        raise CaseError(f"{where}.{name}: missing, or not a list")
    return tuple(_integer(item, f"{where}.{name}") for item in value)
