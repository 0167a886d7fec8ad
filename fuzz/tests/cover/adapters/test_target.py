"""The matrix of targets: nothing is dropped silently, every name is unique, every width is what it says."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from fuzz.core.adapters.build import NATIVE, machine
from fuzz.core.adapters.c import CAttestation, prefix_of
from fuzz.core.adapters.c_kernel import CKernel
from fuzz.core.adapters.isa import ISAS, Emulator, InstructionSet, Setting
from fuzz.core.adapters.pack import built_in, load
from fuzz.core.adapters.registry import expand
from fuzz.core.adapters.target import NotRun, Target, TargetId, causes_by_trait
from fuzz.core.adapters.toolchain import Host
from fuzz.core.base.kernel import PLAIN
from fuzz.core.base.selection import globs, matches_any
from fuzz.core.execute.pool import WorkerPool
from fuzz.tests.common.planted import a_case, c_target
from oracles.formula.contract import Contract
from oracles.summation import Lanes, VectorLanes

X86 = Host("x86_64", frozenset({"avx2", "fma", "f16c", "avx512f"}))
ARM = Host("aarch64", frozenset({"neon", "sve"}), {"vl": 256})


def _kernel(isa: str, contract: Contract = PLAIN, source: Path = Path("k.c")) -> CKernel:
    return CKernel("k", "rms_norm", source, isa, contract)


def _ids(isa: str, host: Host, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setattr("fuzz.core.adapters.toolchain.families", lambda host: ("gcc",))
    return [target.id for target in expand([_kernel(isa)], host) if target.name.opt == "O2"]


[SVE_LENGTH] = ISAS["sve"].settings
SVE_LENGTHS = [int(value) for value in SVE_LENGTH.options]
RVV_PLACES = [
    f"c-k@qemu:vl={bits},tail={tail},masked={masked},clang19-O2"
    for bits in (128, 256, 512, 1024)
    for tail in ("kept", "ones")
    for masked in ("kept", "ones")
]


@pytest.mark.parametrize(
    ("isa", "host", "ids"),
    [
        ("any", X86, ["c-k@native:gcc-O2"]),
        (
            "runtime",
            X86,
            ["c-k@native:gcc-O2", *(f"c-k@qemu:arch={arch},gcc-O2" for arch in ("aarch64", "riscv64", "ppc64le"))],
        ),
        (
            "runtime",
            ARM,
            ["c-k@native:gcc-O2", *(f"c-k@qemu:arch={arch},gcc-O2" for arch in ("x86_64", "riscv64", "ppc64le"))],
        ),
        ("avx2", X86, ["c-k@native:gcc-O2", "c-k@qemu:gcc-O2"]),
        ("avx2", ARM, ["c-k@qemu:gcc-O2"]),
        ("avx512", X86, ["c-k@native:gcc-O2"]),
        ("avx512", ARM, ["c-k@native:gcc-O2"]),
        ("neon", X86, ["c-k@qemu:gcc-O2"]),
        ("neon", ARM, ["c-k@native:gcc-O2"]),
        ("sve2", X86, [f"c-k@qemu:vl={bits},gcc-O2" for bits in SVE_LENGTHS]),
        ("rvv", X86, RVV_PLACES),
        ("rvv-fp16", ARM, RVV_PLACES),
        ("sme", X86, [f"c-k@qemu:svl={bits},clang19-O2" for bits in (128, 256, 512, 2048)]),
        ("vsx", X86, ["c-k@qemu:gcc-O2"]),
        ("simd128", X86, [f"c-k@wasm:engine={engine},wasi-O2" for engine in ("native", "node")]),
        ("relaxed-simd", ARM, [f"c-k@wasm:engine={engine},wasi-O2" for engine in ("deterministic", "native", "node")]),
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
    monkeypatch.setattr("fuzz.core.adapters.toolchain.families", lambda host: ("gcc", "clang"))
    ids = [target.id for target in expand([_kernel("any")], X86)]
    assert ids == [f"c-k@native:{family}-{opt}" for family in ("gcc", "clang") for opt in ("O0", "O2")]


def test_what_writes_vectors_slowly_is_spared_long_rows_where_it_is_not_optimised() -> None:
    limits = {each.name.opt: each.size_limit for each in expand([_kernel("rvv")], X86)}
    assert limits["O0"] is not None
    assert limits["O2"] is not None
    assert limits["O0"].elements < 1000 < limits["O2"].elements


def test_a_contract_is_resolved_at_the_vector_length() -> None:
    targets = expand([_kernel("sve", Contract(sums={"n": VectorLanes(4, "predicated")}))], X86)
    assert {each.contract.sums["n"] for each in targets} == {Lanes(bits // 32, 4, "predicated") for bits in SVE_LENGTHS}


def test_what_cannot_run_says_why_and_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = Host("x86_64", frozenset())
    (wide, *_) = expand([_kernel("avx512")], plain)
    assert wide.unavailable() == "this processor has no avx512f f16c fma"
    spelt = replace(wide, host=Host("x86_64", frozenset({"avx512_f"})))
    assert "; Linux calls it avx512_f, and a row has features by those" in str(spelt.unavailable())
    (elsewhere, *_) = expand([_kernel("avx512")], ARM)
    assert "needs a x86_64 processor with avx512f" in str(elsewhere.unavailable())
    monkeypatch.setenv("PATH", "/nowhere")
    (scalable, *_) = expand([_kernel("sve")], X86)
    with WorkerPool([scalable]) as pool:
        status = pool.statuses[scalable.id]
        assert isinstance(status, NotRun)
        assert "Debian has it in gcc-aarch64-linux-gnu" in status.reason
        assert "Debian has it in qemu-user" in status.reason
        assert pool.submit([a_case()]).outcomes() == [{}]


def test_a_compiler_and_what_it_links_with_are_installed_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    (target, *_) = expand([_kernel("rvv")], X86)
    assert {package for tool in target.adapter.tools(target) for package in tool.package.split()} == {
        "clang-19", "gcc-riscv64-linux-gnu", "qemu-user",
    }  # fmt: skip


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
    monkeypatch.setitem(SVE_LENGTH.options, 384, "sve-default-vector-length=32")
    assert "vector length 384 was requested, the worker has 256" in _broken(scalable, cache)


def test_a_missing_instruction_set_is_said(scalable: Target, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A processor without SVE: the worker says so instead of dying at the first instruction."""
    monkeypatch.setitem(ISAS, "sve", replace(ISAS["sve"], processor=("-cpu", "cortex-a57")))
    assert "sve was requested, the worker has neon" in _broken(replace(scalable, settings=()), cache)


@pytest.mark.whole
def test_sve2_is_attested_and_a_processor_of_the_first_sve_has_none(
    scalable: Target, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = c_target(replace(scalable.kernel, isa="sve2"), "qemu", bits=384)
    with WorkerPool([target], cache=cache) as pool:
        status = pool.statuses[target.id]
    assert isinstance(status, CAttestation)
    assert status.needs == {"sve", "sve2"}
    assert status.settings["vl"] == 384
    monkeypatch.setitem(ISAS, "sve2", replace(ISAS["sve2"], processor=("-cpu", "a64fx")))
    assert "sve2 was requested, the worker has neon sve" in _broken(replace(target, settings=()), cache)


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
    length = Setting("vl", "vector length", {128: "vlen=128", 512: "vlen=512"}, is_width=True)
    tail = Setting("tail", "tail policy", {"kept": "ta=off", "ones": "ta=on"})
    row = InstructionSet(
        "riscv64",
        {"gcc": ("-march=rv64gcv",), "clang": ("-march=rv64gcv1p0",)},
        frozenset({"rvv"}),
        processor=("-cpu", "rv64,v=true"),
        settings=(length, tail),
    )
    assert row.emulated_here, "nothing else varies its settings"
    with pytest.raises(ValueError, match="nobody knows what the trait 'vector length"):
        replace(expand([_kernel("any")], X86)[0], traits=(("vector length in bytes", 4),))
    for name in ("rvv", "rvv-fp16"):  # in their places: rows that come last would be so for other tests too
        monkeypatch.setitem(ISAS, name, row)
    assert _ids("rvv", X86, monkeypatch) == [
        f"c-k@qemu:vl={bits},tail={policy},gcc-O2" for bits in (128, 512) for policy in ("kept", "ones")
    ]
    targets = {target.id: target for target in expand([_kernel("rvv")], X86)}
    wide = targets["c-k@qemu:vl=512,tail=ones,gcc-O2"]
    assert (wide.arch, wide.emulated, wide.lanes) == ("riscv64", True, 16)
    assert {("vector length", 512), ("tail policy", "ones")} <= {*wide.traits}
    assert causes_by_trait()["tail policy"] == "tail policy", "and so no condition on the case"
    assert wide.flags == ("-O2", "-march=rv64gcv")
    assert [tool.package for tool in wide.adapter.tools(wide)] == ["gcc-riscv64-linux-gnu", "qemu-user"]
    monkeypatch.setattr("shutil.which", lambda name: f"/bin/{name}")
    assert prefix_of(wide) == ("/bin/qemu-riscv64", "-R", "4G", "-cpu", "rv64,v=true,vlen=512,ta=on")
    assert "c-k@qemu:arch=riscv64,gcc-O2" in _ids("runtime", X86, monkeypatch), "and portable code is tried there"


def test_an_architecture_without_a_header_is_a_clear_error_of_the_compiler() -> None:
    for file in ("attest.c", "state.c", "convention.c", "faults.c"):
        words = ["gcc", "-std=gnu11", "-fsyntax-only", machine("sparc64"), str(NATIVE / file)]
        done = subprocess.run(words, capture_output=True, text=True, check=False)
        assert done.returncode == 1, file
        assert 'error: #error "kernelfuzz has no header for this architecture: see' in done.stderr


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"word": "v l"}, "setting 'v l': a word of letters and digits"),
        ({"options": {}}, "setting 'vl': .* at least one value"),
        ({"options": {"wide": "w=1"}}, "setting 'vl': widths are numbers of bits"),
    ],
)
def test_a_setting_that_cannot_be_is_refused(setting: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        replace(SVE_LENGTH, **setting)
    with pytest.raises(ValueError, match="settings vl: an emulator varies them"):
        InstructionSet("aarch64", emulator=None, settings=(SVE_LENGTH,))
    with pytest.raises(ValueError, match="settings vl, vl: each has a word of its own"):
        InstructionSet("aarch64", settings=(SVE_LENGTH, SVE_LENGTH))


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
