"""The matrix of targets: nothing is dropped silently, every name is unique, every width is what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.adapters.c_target import SVE_BITS, CTarget
from fuzz.adapters.target import expand
from fuzz.adapters.toolchain import Host, this_host
from fuzz.base.attestation import AttestationError, NotRun
from fuzz.base.kernel import PLAIN, CKernel, Isa
from fuzz.execute.pool import WorkerPool
from fuzz.tests.common.planted import a_case
from oracles.numerics import Lanes, Numerics, VectorLanes

X86 = Host("x86_64", frozenset({"avx2", "fma", "f16c", "avx512f"}))
ARM = Host("aarch64", frozenset({"neon", "sve"}), sve_bits=256)


def _kernel(isa: Isa, numerics: Numerics = PLAIN, source: Path = Path("k.c")) -> CKernel:
    return CKernel("k", "rms_norm", source, isa, numerics)


def _ids(isa: Isa, host: Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("fuzz.adapters.toolchain.families", lambda host: ("gcc",))
    return [target.id for target in expand([_kernel(isa)], host) if target.opt == "O2"]


@pytest.mark.parametrize(
    ("isa", "host", "ids"),
    [
        ("any", X86, ["c-k@native:gcc-O2"]),
        ("runtime", X86, ["c-k@native:gcc-O2", "c-k@qemu:arch=aarch64,gcc-O2"]),
        ("runtime", ARM, ["c-k@native:gcc-O2", "c-k@qemu:arch=x86_64,gcc-O2"]),
        ("avx2", X86, ["c-k@native:gcc-O2", "c-k@qemu:gcc-O2"]),
        ("avx2", ARM, ["c-k@qemu:gcc-O2"]),
        ("avx512", X86, ["c-k@native:gcc-O2"]),
        ("avx512", ARM, ["c-k@native:gcc-O2"]),
        ("neon", X86, ["c-k@qemu:gcc-O2"]),
        ("neon", ARM, ["c-k@native:gcc-O2"]),
        ("sve", X86, [f"c-k@qemu:vl={bits},gcc-O2" for bits in SVE_BITS]),
        ("sve", ARM, ["c-k@native:vl=256,gcc-O2", *(f"c-k@qemu:vl={bits},gcc-O2" for bits in SVE_BITS)]),
    ],
)
def test_the_matrix(isa: Isa, host: Host, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert _ids(isa, host, monkeypatch) == ids


def test_every_optimisation_level_and_compiler_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.adapters.toolchain.families", lambda host: ("gcc", "clang"))
    ids = [target.id for target in expand([_kernel("any")], X86)]
    assert ids == [f"c-k@native:{family}-{opt}" for family in ("gcc", "clang") for opt in ("O0", "O2")]


def test_numerics_are_resolved_at_the_vector_length() -> None:
    targets = expand([_kernel("sve", Numerics(summation=VectorLanes(4, "predicated")))], X86)
    assert {target.numerics.summation for target in targets} == {
        Lanes(bits // 32, 4, "predicated") for bits in SVE_BITS
    }


def test_what_cannot_run_says_why_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Host("x86_64", frozenset())
    (wide, *_) = expand([_kernel("avx512")], plain)
    assert "no avx512f" in str(wide.unavailable())
    (elsewhere, *_) = expand([_kernel("avx512")], ARM)
    assert "needs a x86_64 processor with avx512f" in str(elsewhere.unavailable())
    monkeypatch.setenv("PATH", "/nowhere")
    (scalable, *_) = expand([_kernel("sve")], X86)
    with WorkerPool([scalable]) as pool:
        status = pool.statuses[scalable.id]
        assert isinstance(status, NotRun)
        assert "apt-get install gcc-aarch64-linux-gnu" in status.reason
        assert "apt-get install qemu-user-static" in status.reason
        assert pool.collect(pool.submit([a_case()])) == [{}]


@pytest.fixture
def scalable(tmp_path: Path) -> CTarget:
    source = tmp_path / "k.c"
    source.write_text('#include "kernelfuzz.h"\nint kf_rms_norm(const kf_rms_norm_call *c) { return KF_REJECTED; }\n')
    target = CTarget(_kernel("sve", source=source), this_host(), "aarch64", emulated=True, vector_bits=384)
    assert target.unavailable() is None, "tests need every compiler and emulator: kernelfuzz doctor --install"
    return target


def test_a_wrong_vector_length_is_an_internal_error(
    scalable: CTarget, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator is asked for 256 bits while the target says 384."""
    narrower = replace(scalable, vector_bits=256).prefix
    monkeypatch.setattr(CTarget, "prefix", narrower)
    with (
        pytest.raises(AttestationError, match="384 bits were requested, the worker has 256"),
        WorkerPool([scalable], cache=cache),
    ):
        pass


def test_a_missing_instruction_set_is_an_internal_error(
    scalable: CTarget, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A processor without SVE: the worker says so instead of dying at the first instruction."""
    monkeypatch.setattr(CTarget, "prefix", (scalable.prefix[0], "-cpu", "cortex-a57"))
    with (
        pytest.raises(AttestationError, match="sve was requested, the worker has neon"),
        WorkerPool([scalable], cache=cache),
    ):
        pass
