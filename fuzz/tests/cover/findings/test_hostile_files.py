"""Case files that strangers made to break their reader: one line that names file and field, and no more memory."""

from __future__ import annotations

import base64
import json
import os
import tracemalloc
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from fuzz.core.base.case import CaseError
from fuzz.findings import casefile, document
from fuzz.findings.casefile import FoundRecord, load, to_json
from fuzz.tests.common.examples import plain
from fuzz.tests.common.strangers import resealed
from fuzz.tests.conftest import Cli

LONG, DEEP = '"@long@"', '"@deep@"'


def packed(size: int) -> str:
    """Return `size` MiB of zeros, compressed; nobody needs more than the first of them."""
    stream = zlib.compressobj(9)
    head = stream.compress(bytes(1 << 20)) + stream.flush(zlib.Z_FULL_FLUSH)
    one = stream.compress(bytes(1 << 20)) + stream.flush(zlib.Z_FULL_FLUSH)
    return base64.b64encode(head + one * (size - 1) + stream.flush()).decode()


def x(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    """Other members of the input."""
    return lambda record: record["inputs"]["x"].update(changes)


def eps(value: Any) -> Callable[[dict[str, Any]], Any]:
    return lambda record: record["params"].update(eps=value)


def bits_as(**changes: Any) -> Callable[[dict[str, Any]], Any]:
    def change(record: dict[str, Any]) -> None:
        record["inputs"]["x"].pop("bits")
        record["inputs"]["x"].update(changes)

    return change


def called(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda record: record["inputs"].update({name: record["inputs"]["x"]})


HOSTILE: dict[str, tuple[Callable[[dict[str, Any]], Any], str]] = {
    "a double that overflows": (eps({"hex": "0x1p99999"}), "params.eps.hex"),
    "NaN for eps": (eps({"hex": "nan"}), "params.eps"),
    "infinity for eps": (eps({"hex": "inf"}), "params.eps"),
    "more than a float32": (eps({"hex": "0x1p1000"}), "params.eps"),
    "the literal NaN": (eps(float("nan")), "params.eps: expected an object, found NaN"),
    "the literal Infinity": (x(offset=float("inf")), "inputs.x.offset: Infinity is not an integer"),
    "5,000 digits": (x(offset="@long@"), "inputs.x.offset: an integer of 5,000 digits is not an integer"),
    "5,000 digits in a shape": (x(shape=["@long@", 5]), "inputs.x.shape"),
    "100,000 brackets": (x(shape="@deep@"), "nested too deeply"),
    "70 bits in a shape": (x(shape=[2**70, 5]), "inputs.x.shape"),
    "a shape that overflows": (x(shape=[2**62, 2**62, 0], strides=[0, 0, 1]), "inputs.x.shape"),
    "more rows than memory, all empty": (x(shape=[2**40, 0]), "inputs.x.shape"),
    "rank 1000": (x(shape=[1] * 1000, strides=[1] * 1000), "inputs.x.shape: rank 1000"),
    "a stride of 70 bits": (x(strides=[2**70, 1]), "inputs.x.strides"),
    "a stride of 63 bits": (x(strides=[2**62, 1]), "inputs.x.strides"),
    "a stride of 63 bits backwards": (x(strides=[-(2**62), 1]), "inputs.x.strides"),
    "a negative offset": (x(offset=-1), "inputs.x.offset"),
    "an offset of 63 bits": (x(offset=2**62), "inputs.x.offset"),
    "an offset of 70 bits": (x(offset=2**70), "inputs.x.offset"),
    "true for an integer": (x(offset=True), "inputs.x.offset"),
    "a float for an integer": (x(offset=1.0), "inputs.x.offset"),
    "a float in a shape": (x(shape=[2.0, 5]), "inputs.x.shape"),
    "true in strides": (x(strides=[True, 1]), "inputs.x.strides"),
    "3 GiB in a few bytes": (bits_as(zlib=packed(3 << 10)), "inputs.x.zlib"),
    "something behind the bits": (
        bits_as(zlib=base64.b64encode(zlib.compress(bytes(40)) + b"more").decode()),
        "inputs.x.zlib",
    ),
    "bits that are cut off": (
        bits_as(zlib=base64.b64encode(zlib.compress(bytes(range(40)))[:-9]).decode()),
        "inputs.x.zlib",
    ),
    "bits twice": (x(zlib=base64.b64encode(zlib.compress(bytes(40))).decode()), "inputs.x.zlib"),
    "bits that are no text": (x(bits=[1, 2]), "inputs.x.bits"),
    "bits that are one text": (x(bits="3f800000" * 10), "inputs.x.bits"),
    "zlib that is no text": (bits_as(zlib=["a"]), "inputs.x.zlib"),
    "words of another width": (x(bits=["3f80 0000" * 10]), "inputs.x.bits"),
    "a name that is code": (called("x; system(0)"), "inputs: 'x; system(0)' is not a name"),
    "a name of two lines": (called("a\nb"), "inputs: 'a\\nb' is not a name"),
    "a param that is code": (lambda r: r["params"].update({"eps}; int y = {0": 1}), "params: 'eps}; int"),
    "an op that is code": (lambda r: r.update(op="rms_norm_call; int x"), "op: unknown op"),
    "an op with a line end": (lambda r: r.update(op="rms\n::error::x"), "op: unknown op"),
    "an input that no memory holds": (
        x(strides=[1, 1], bits=["3f800000 " * 5 + "40000000" + " 3f800000" * 4]),
        "inputs.x.bits",
    ),
    "an output on itself": (lambda r: r["outputs"]["y"].update(strides=[0, 1]), "outputs.y.strides"),
    "a law that does not apply": (lambda r: r["found"].update(law={"name": "x", "key": "0"}), "found.law"),
    "an explanation of nothing": (lambda r: r["found"].update(explanation={"schema": 1}), "found.explanation"),
}


def hostile(change: Callable[[dict[str, Any]], Any]) -> str:
    record = to_json(plain(5, eps=0.25), FoundRecord("c-k@native", "FAIL_NUMERIC", 1, "0"))
    change(record)
    resealed(record)
    written = json.dumps(record).replace(LONG, "9" * 5000)
    return written.replace(DEEP, "[" * 100_000 + "]" * 100_000)


@pytest.mark.parametrize("name", list(HOSTILE))
def test_a_hostile_file_is_one_line_that_names_the_field(tmp_path: Path, name: str) -> None:
    change, expected = HOSTILE[name]
    path = tmp_path / "case.json"
    path.write_text(hostile(change))
    tracemalloc.start()
    with pytest.raises(CaseError) as caught:
        load(path)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    said = str(caught.value)
    assert said.startswith(f"{path}: ")
    assert expected in said
    assert said.isprintable()
    assert len(said) < 1000
    assert peak < 32 << 20


def test_a_member_that_is_there_twice_is_named(tmp_path: Path) -> None:
    written = hostile(lambda record: None).replace('"offset": 0', '"offset": 0, "offset": 0', 1)
    (tmp_path / "case.json").write_text(written)
    with pytest.raises(CaseError, match=r"inputs\.x\.offset: a field that is there twice"):
        load(tmp_path / "case.json")


@pytest.mark.some(1)
@pytest.mark.parametrize("command", [("repro",), ("explain-budget",), ("corpus", "add")], ids=" ".join)
def test_what_is_no_regular_text_file_is_refused(tmp_path: Path, cli_here: Cli, command: Sequence[str]) -> None:
    (tmp_path / "folder.json").mkdir()
    os.mkfifo(tmp_path / "pipe.json")
    (tmp_path / "binary.json").write_bytes(bytes(range(256)))
    (tmp_path / "loop.json").symlink_to("loop.json")
    (tmp_path / "null.json").symlink_to("/dev/null")
    (tmp_path / "endless.json").symlink_to("/dev/zero")
    (tmp_path / "a\n::error::b\x1b[2J.json").write_text("{}")
    for path in sorted(tmp_path.iterdir()):
        done = cli_here(*command, path.name)
        assert done.returncode == 4, done.stderr
        [line] = done.stderr.splitlines()
        assert line.startswith("kernelfuzz: ")
        assert path.name.rpartition(".")[0][:1] in line
        assert line.isprintable()
    done = cli_here("corpus", "verify", "--corpora", ".")
    assert done.returncode == 4
    assert len(done.stderr.replace("\n    ", " ").splitlines()) == 1


def test_a_file_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "case.json"
    with path.open("wb") as file:
        file.truncate(8 << 30)  # of which nothing takes room on the disk
    with pytest.raises(CaseError, match=r"case\.json: has more than 256 MiB"):
        load(path)


def test_a_file_of_a_million_values_is_not_parsed() -> None:
    with pytest.raises(CaseError, match="more than 1,000,000 values"):
        document.parsed("[" + "[]," * 1_000_000 + "1]")


def test_a_history_within_histories_ends(tmp_path: Path) -> None:
    """Calls are read without what was found of them, or a file could nest them deeper than Python can follow."""
    record: dict[str, Any] = to_json(plain(5, eps=0.25))
    for _ in range(100):
        found = {"target": "t", "verdict": "CRASH", "run_seed": 1, "version": "0"}
        record = {**to_json(plain(5, eps=0.25)), "found": {**found, "history": {"seal": "0" * 64, "calls": [record]}}}
    (tmp_path / "case.json").write_text(json.dumps(record))
    with pytest.raises(CaseError, match=r"found\.history\.seal"):
        load(tmp_path / "case.json")


def test_all_calls_of_a_history_together_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each would be allowed by itself; compressed, a few bytes of the file are many in memory."""
    record = to_json(plain(5, eps=0.25), FoundRecord("t", "CRASH", 1, "0"))
    record["found"]["history"] = {"seal": "0" * 64, "calls": [to_json(plain(50, eps=0.25))] * 3}
    (tmp_path / "case.json").write_text(json.dumps(record))
    monkeypatch.setattr(casefile, "_MOST_HELD", 1 << 10)
    with pytest.raises(CaseError, match=r"found\.history\.calls: take more than"):
        load(tmp_path / "case.json")
