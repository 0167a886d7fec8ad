"""The matrix of targets: nothing is dropped silently, every name is unique, every width is what it says."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from fuzz.adapters.c import prefix_of
from fuzz.adapters.c_kernel import CKernel
from fuzz.adapters.isa import ISAS, Emulator, InstructionSet
from fuzz.adapters.pack import built_in, load
from fuzz.adapters.registry import expand
from fuzz.adapters.target import NotRun, Target, TargetId
from fuzz.adapters.toolchain import Host
from fuzz.base.kernel import PLAIN
from fuzz.base.selection import globs, matches_any
from fuzz.execute.pool import WorkerPool
from fuzz.tests.common.planted import a_case, c_target
from oracles.formula.contract import Contract
from oracles.summation import Lanes, VectorLanes

X86 = Host("x86_64", frozenset({"avx2", "fma", "f16c", "avx512f"}))
ARM = Host("aarch64", frozenset({"neon", "sve"}), vector_bits=256)


def _kernel(isa: str, contract: Contract = PLAIN, source: Path = Path("k.c")) -> CKernel:
    return CKernel("k", "rms_norm", source, isa, contract)


def _ids(isa: str, host: Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("fuzz.adapters.toolchain.families", lambda host: ("gcc",))
    return [target.id for target in expand([_kernel(isa)], host) if target.name.opt == "O2"]


SVE_LENGTHS = ISAS["sve"].vector_lengths


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
        ("sve", X86, [f"c-k@qemu:vl={bits},gcc-O2" for bits in SVE_LENGTHS]),
        (
            "sve",
            ARM,
            ["c-k@native:vl=256,gcc-O2", *(f"c-k@qemu:vl={bits},gcc-O2" for bits in SVE_LENGTHS)],
        ),
    ],
)
def test_the_matrix(isa: str, host: Host, ids: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    assert _ids(isa, host, monkeypatch) == ids


def test_every_optimisation_level_and_compiler_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fuzz.adapters.toolchain.families", lambda host: ("gcc", "clang"))
    ids = [target.id for target in expand([_kernel("any")], X86)]
    assert ids == [f"c-k@native:{family}-{opt}" for family in ("gcc", "clang") for opt in ("O0", "O2")]


def test_a_contract_is_resolved_at_the_vector_length() -> None:
    targets = expand([_kernel("sve", Contract(sums={"n": VectorLanes(4, "predicated")}))], X86)
    assert {each.contract.sums["n"] for each in targets} == {Lanes(bits // 32, 4, "predicated") for bits in SVE_LENGTHS}


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
        assert "apt-get install qemu-user" in status.reason
        assert pool.submit([a_case()]).outcomes() == [{}]


@pytest.fixture
def scalable(tmp_path: Path) -> Target:
    source = tmp_path / "k.c"
    source.write_text('#include "kernelfuzz.h"\nint kf_rms_norm(const kf_rms_norm_call *c) { return KF_REJECTED; }\n')
    target = c_target(_kernel("sve", source=source), "qemu", bits=384)
    assert target.unavailable() is None, "tests need every compiler and emulator: kernelfuzz doctor --install"
    return target


def _broken(target: Target, cache: Path) -> str:
    """Why the target cannot be started; its kernel is to blame."""
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, NotRun)
    assert status.broken
    return status.reason


def test_a_wrong_vector_length_is_never_judged(scalable: Target, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The emulator is asked for 256 bits while the target says 384."""
    narrower = ("-cpu", "max,sve-default-vector-length=32")
    monkeypatch.setitem(ISAS, "sve", replace(ISAS["sve"], processor=narrower))
    assert "384 bits were requested, the worker has 256" in _broken(scalable, cache)


def test_a_missing_instruction_set_is_said(scalable: Target, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without SVE: the worker says so instead of dying at the first instruction."""
    monkeypatch.setitem(ISAS, "sve", replace(ISAS["sve"], processor=("-cpu", "cortex-a57")))
    assert "sve was requested, the worker has neon" in _broken(scalable, cache)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("c-sve@qemu:vl=256,gcc-O0", TargetId("c", "sve", "qemu", (("vl", "256"),), "gcc", "O0")),
        (
            "c-add-generic@qemu:arch=aarch64,clang-O2",
            TargetId("c", "add-generic", "qemu", (("arch", "aarch64"),), "clang", "O2"),
        ),
        ("triton-vector-generic@interpret", TargetId("triton", "vector-generic", "interpret")),
        ("torch-eager@cpu", TargetId("torch", "eager", "cpu")),
    ],
)
def test_an_id_is_read_as_it_is_printed(text: str, parts: TargetId) -> None:
    assert TargetId.parse(text) == parts
    assert str(parts) == text


def test_every_id_of_the_built_in_pack_goes_there_and_back() -> None:
    for host in (X86, ARM):
        for target in expand(load(built_in()).kernels, host):
            parsed = TargetId.parse(target.id)
            assert str(parsed) == target.id
            assert parsed.kernel == target.kernel.name


SDE = Emulator("sde", ("sde64",), "intel-sde", attested=frozenset({"sde"}))


def test_a_new_instruction_set_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another architecture with scalable vectors, under an emulator that is known."""
    row = InstructionSet(
        "riscv64",
        {"gcc": ("-march=rv64gcv",), "clang": ("-march=rv64gcv1p0",)},
        frozenset({"rvv"}),
        processor=("-cpu", "rv64,v=true,vlen={bits}"),
        vector_lengths=(128, 512),
    )
    monkeypatch.setitem(ISAS, "rvv", row)
    assert _ids("rvv", X86, monkeypatch) == ["c-k@qemu:vl=128,gcc-O2", "c-k@qemu:vl=512,gcc-O2"]
    targets = {target.id: target for target in expand([_kernel("rvv")], X86)}
    wide = targets["c-k@qemu:vl=512,gcc-O2"]
    assert (wide.arch, wide.emulated, wide.vector_bits) == ("riscv64", True, 512)
    assert wide.flags == ("-O2", "-march=rv64gcv")
    assert [tool.package for tool in wide.adapter.tools(wide)] == ["gcc-riscv64-linux-gnu", "qemu-user"]
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert prefix_of(wide) == ("/bin/qemu-riscv64", "-cpu", "rv64,v=true,vlen=512")
    assert "c-k@qemu:arch=riscv64,gcc-O2" in _ids("runtime", X86, monkeypatch), "and portable code is tried there"


def test_a_new_emulator_is_a_row(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that has what the others have not, with options of its own."""
    monkeypatch.setitem(ISAS, "avx512", replace(ISAS["avx512"], emulator=SDE, processor=("-skx", "--")))
    assert _ids("avx512", ARM, monkeypatch) == ["c-k@sde:gcc-O2"]
    [target] = [each for each in expand([_kernel("avx512")], ARM) if each.name.opt == "O2"]
    assert "sde64 is not installed (apt-get install intel-sde)" in str(target.unavailable())
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert prefix_of(target) == ("/bin/sde64", "-skx", "--")
    assert target.unavailable() is None
    assert matches_any(target.id, globs(["c@sde"]))
