"""The frames: what the engine encodes is what the kernel sees, and a broken frame is a clear error, never a hang."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.core.adapters.build import Builder
from fuzz.core.adapters.target import AttestationError, Target
from fuzz.core.base.case import Case, Layout, Output, Tensor
from fuzz.core.base.outcome import Outcome, Unwritten
from fuzz.core.execute.pool import WorkerPool
from fuzz.core.transport import records
from fuzz.core.transport.frames import AnswerError, FrameError, Response, encode_case, encode_frame, outcome_of
from fuzz.core.transport.steps import taken
from fuzz.tests.common.planted import Run, a_case, c_program
from fuzz.tests.conftest import HANG_S

SEES = """
    const kf_tensor *x = &c->x;
    float *y = c->y.data;
    const float seen[] = {
        x->dtype, x->rank, x->shape[0], x->shape[1], x->shape[2], x->strides[0], x->strides[1], x->strides[2],
        c->axis, c->eps, ((float *)x->data)[0], ((float *)x->data)[x->strides[2]],
    };
    for (int i = 0; i < 12; i++) y[i * c->y.strides[1]] = seen[i];
"""


def test_the_kernel_sees_the_case(run: Run) -> None:
    x = Layout((1, 2, 3), (50, -20, 2), "before", 3)
    y = Layout((1, 12), (1, 2))
    data = a_case(Layout((1, 6), (6, 1))).inputs["x"].bits
    case = Case("rms_norm", {"axis": 1, "eps": 0.5}, {"x": Tensor("f32", x, data)}, {"y": Output("f32", y)})
    (outcome,) = run(SEES, case)
    assert list(memoryview(outcome.outputs["y"]).cast("f")) == [
        records.DTYPES["f32"],
        3,
        1,
        2,
        3,
        50,
        -20,
        2,
        1,
        0.5,
        1,
        2,
    ]
    assert (outcome.damage, outcome.unwritten) == ((), ())


def test_a_batch_larger_than_a_frame_keeps_its_order(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.core.execute.pool.FRAME_BYTES", 2000)
    cases = [a_case(bits=bytes([n]) * 48) for n in range(30)]
    assert [outcome.outputs["y"] for outcome in run("copy(c);", *cases)] == [case.inputs["x"].bits for case in cases]


def test_names_and_ranks_that_do_not_fit_are_refused() -> None:
    case = a_case()
    long_name = Case("rms_norm", {}, {"a_name_of_32_bytes_is_one_too_many": case.inputs["x"]}, {})
    with pytest.raises(FrameError, match="31 bytes"):
        encode_case(long_name)
    deep = a_case(Layout((1,) * 7, (1,) * 7), bits=bytes(4))
    with pytest.raises(FrameError, match="rank 7"):
        encode_case(deep)


def _patched(frame: bytes, at: int, data: bytes) -> bytes:
    return frame[:at] + data + frame[at + len(data) :]


FRAME = encode_frame([encode_case(a_case())], 10)
DESCRIBED = 24 + 40 + 2 * 48 + 32  # what is behind the name of the first tensor
BROKEN = {
    "magic": _patched(FRAME, 0, b"????"),
    "2147483649 bytes": _patched(FRAME, 8, (2**31 + 1).to_bytes(8, "little")),
    "ended 8 bytes early": FRAME[:-8],
    "claims 7 bytes": _patched(FRAME, 24, b"\7\0\0\0"),
    "is cut off": _patched(FRAME, 4, b"\2\0\0\0"),
    "after the last case": _patched(FRAME, 4, b"\0\0\0\0"),
    "not softmax": _patched(FRAME, 32, b"softmax\0"),
    "without parameter eps": FRAME.replace(b"eps\0", b"epx\0"),
    "without tensor y": FRAME.replace(b"y\0\0\0", b"z\0\0\0"),
    "dtype 99": _patched(FRAME, DESCRIBED, b"\x63"),
    "rank 7": _patched(FRAME, DESCRIBED + 1, b"\x07"),
    "alias 0": _patched(FRAME, DESCRIBED + 3, b"\x00"),
    "offset -1": _patched(FRAME, DESCRIBED + 8, b"\xff" * 8),
    "wrong size": _patched(FRAME, DESCRIBED + 16, b"\x01"),
    "extent -1": _patched(FRAME, DESCRIBED + 24, b"\xff" * 8),
    "too many": _patched(FRAME, 24 + 6, b"\xff"),
}


@pytest.mark.some(16)
@pytest.mark.parametrize("said", list(BROKEN))
def test_a_broken_frame_is_a_clear_error(
    said: str, make_target: Callable[[str], Target], cache: Path, place: str
) -> None:
    target = make_target("copy(c);")
    command = c_program(target, Builder(cache)).command
    answer = subprocess.run(command, input=BROKEN[said], capture_output=True, timeout=HANG_S, check=False)
    assert (answer.returncode, said.encode() in answer.stderr) == (70, True), answer.stderr
    assert len(answer.stderr.splitlines()) == 1


def test_a_worker_ends_when_its_input_ends(make_target: Callable[[str], Target], cache: Path) -> None:
    target = make_target("copy(c);")
    program = c_program(target, Builder(cache))
    answer = subprocess.run(program.command, input=FRAME, capture_output=True, timeout=HANG_S, check=False)
    assert (answer.returncode, answer.stderr) == (0, b"")
    magic, size = records.HELLO.unpack_from(answer.stdout)
    assert magic == records.HELLO_MAGIC
    program.attested(answer.stdout[8 : 8 + size].decode())


def test_a_frame_the_worker_refuses_is_an_internal_error(make_target: Callable[[str], Target], cache: Path) -> None:
    target = make_target("copy(c);")
    no_eps = Case("rms_norm", {"axis": 1}, a_case().inputs, a_case().outputs)
    with WorkerPool([target], cache=cache) as pool, pytest.raises(FrameError, match="without parameter eps"):
        pool.submit([no_eps]).outcomes()


def test_an_attestation_is_held_to_its_target(make_target: Callable[[str], Target], cache: Path) -> None:
    target = make_target("copy(c);")
    program = c_program(target, Builder(cache))
    process = program.process(10.0)
    hello = taken(process.hello())
    process.close()
    assert program.attested(hello).digest == program.digest
    with pytest.raises(AttestationError, match="code 0000 was requested"):
        replace(program, digest="0000").attested(hello)


def test_equal_answers_to_one_case_have_the_same_outputs() -> None:
    case = a_case()
    bits, known = case.inputs["x"].bits, list[tuple[bytes, dict[str, bytes]]]()

    def answered(payload: bytes, status: int = records.RAN, unwrittens: int = 0) -> Outcome:
        return outcome_of(Response(0, status, 0, 0, -1, -1, 0, 0, unwrittens, 0, 0, payload), case, "t", known)

    first, other = answered(bits), answered(bytes(len(bits)))
    poisoned = answered(bits + records.UNWRITTEN.pack(1, 3, 1), unwrittens=1)
    assert answered(bytes(bytearray(bits))).outputs is first.outputs
    assert answered(bytes(len(bits))).outputs is other.outputs
    assert (first.outputs, other.outputs) == ({"y": bits}, {"y": bytes(len(bits))})
    assert (poisoned.outputs, poisoned.unwritten) == ({"y": bits}, (Unwritten("y", 3, 1),))
    with pytest.raises(AnswerError):
        answered(bits[:-1])
