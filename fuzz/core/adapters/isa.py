"""Instruction sets, what they leave open, and emulators, as rows of data. What a worker observes of itself is in the
header of its architecture, `native/ARCH.h`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

Flags = Mapping[str, tuple[str, ...]]
"""Compiler flags by family of compilers."""
Value = int | str
"""What a setting is set to."""


@dataclass(frozen=True, eq=False)
class Emulator:
    """A program that runs the code of another processor."""

    place: str
    """The place as targets' ids say it."""
    programs: tuple[str, ...]
    """The names that systems know it by; the first one that is installed is used."""
    package: str
    processors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By architecture, the options that choose the fullest processor, where these are not `-cpu max`."""
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The options by architecture that bound what the guest may do to its host."""
    hides_preload: tuple[str, ...] = ()
    """The options by which the guest does not see that a library was preloaded; without any, none is."""
    sysroot_option: str = "-L"
    """The option before the folder in which the guest finds its system's libraries."""
    attested: frozenset[str] = frozenset({"tcg", "unknown"})
    """What a worker may observe of what it runs on; 'none' is hardware."""


QEMU = Emulator(
    "qemu",
    # The one that is linked dynamically takes a library of ours, with which it is faster; see `emulator_helper`.
    ("qemu-{arch}", "qemu-{arch}-static"),
    "qemu-user",
    {"riscv64": ("-cpu", "rv64,v=true,vext_spec=v1.0,Zfh=true"), "ppc64le": ("-cpu", "power10")},
    # Without a bound on its memory a guest that asks for more than the worker's own limit keeps QEMU searching for a
    # free range until it times out; an x86-64 guest needs its vsyscall page beyond any bound.
    {"aarch64": ("-R", "4G"), "riscv64": ("-R", "4G"), "ppc64le": ("-R", "4G")},
    ("-U", "LD_PRELOAD"),
)


WASM = Emulator("wasm", (), "", attested=frozenset({"wasm"}))
"""Engines of WebAssembly. `adapters/wasm.py` knows how each is started."""


@dataclass(frozen=True, eq=False)
class Setting:
    """What an instruction set leaves to the processor, such as the length of vectors, and an emulator can vary. There
    is a target for each value, which is part of its id and which its worker must attest."""

    word: str
    """Its name in the ids of targets, and in the line `settings` by which a worker attests it: 'vl'."""
    trait: str
    """Its name as a property of a target, in causes and in rules of failing: 'vector length'."""
    options: Mapping[Value, str]
    """The values that are tried, each with the property by which the emulator's processor has it."""
    is_width: bool = False
    """Whether its values are the width of vectors in bits, from which the number of their lanes follows."""
    here: Callable[[], Value | None] = lambda: None
    """Returns this machine's value, where its processor has the instruction set; None where that is unknown."""

    def __post_init__(self) -> None:
        """Raise ValueError for a word that an id cannot have, and for widths that are no numbers."""
        if not self.word.isalnum() or not self.options:
            raise ValueError(f"setting {self.word!r}: a word of letters and digits, and at least one value")
        if self.is_width and not all(isinstance(value, int) and value > 0 for value in self.options):
            raise ValueError(f"setting {self.word!r}: widths are numbers of bits")


Settings = tuple[tuple[Setting, Value], ...]
"""Settings, each with its value."""


@dataclass(frozen=True, eq=False)
class InstructionSet:
    """What code for an instruction set asks of compilers, processors and emulators."""

    arch: str | None
    """The architecture; None for portable code, which runs on any."""
    flags: Flags = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    """The processor features that the flags let the compiler use. The worker must attest them all."""
    emulator: Emulator | None = QEMU
    """The emulator that has it; None where no emulator has it, or where emulation shows nothing new."""
    processor: tuple[str, ...] = ("-cpu", "max")
    """Options by which the emulator takes a processor that has it; those of settings follow, after commas."""
    always_emulated: bool = False
    """Whether it is emulated also where the real processor is here, and not only in its place."""
    settings: tuple[Setting, ...] = ()
    """What it leaves open: where it is emulated, it is run once with each combination of their values."""
    compilers: tuple[str, ...] = ()
    """The families of compilers that know it, where the usual ones do not."""
    adapter: str = "c"
    """The adapter of what is written for it."""
    spills_slowly: bool = False
    """Whether its emulator takes long to write a vector, which code that was not optimised does after every step."""

    def __post_init__(self) -> None:
        """Raise ValueError for settings that nothing varies, or that have one name."""
        words = [setting.word for setting in self.settings]
        if self.settings and self.emulator is None:
            raise ValueError(f"settings {', '.join(words)}: an emulator varies them")
        if len({*words}) < len(words) or sum(setting.is_width for setting in self.settings) > 1:
            raise ValueError(f"settings {', '.join(words)}: each has a word of its own, and one is a width at most")

    @property
    def emulated_here(self) -> bool:
        """Whether it is emulated although the real processor is here, since nothing else varies its settings."""
        return self.always_emulated or bool(self.settings)

    @property
    def combinations(self) -> tuple[Settings, ...]:
        """All values of the settings with all values of the others."""
        each = [[(setting, value) for value in setting.options] for setting in self.settings]
        return tuple(tuple(values) for values in product(*each))

    def processor_with(self, settings: Settings, arch: str) -> tuple[str, ...]:
        """Return the options by which the emulator chooses a processor of that architecture with these settings."""
        any_there = self.emulator.processors if self.emulator is not None and self.arch is None else {}
        *options, processor = any_there.get(arch, self.processor)
        return (*options, ",".join([processor, *(setting.options[value] for setting, value in settings)]))


def _alike(*flags: str) -> Flags:
    """Return the same flags for gcc and for clang."""
    return dict.fromkeys(("gcc", "clang"), flags)


def _sve_length() -> int | None:
    """Return the vector length in bits that the kernel gives to new processes, by prctl(PR_SVE_GET_VL): the low 16
    bits."""
    pr_sve_get_vl, length_mask = 51, 0xFFFF
    answer = int(ctypes.CDLL(None).prctl(pr_sve_get_vl, 0, 0, 0, 0))
    return (answer & length_mask) * 8 if answer > 0 else None


_SVE_LENGTH = Setting(
    "vl",
    "vector length",
    # In bytes. sveNNN=on does not set the length: it is silently capped. 384 is legal and no power of two.
    {bits: f"sve-default-vector-length={bits // 8}" for bits in (128, 256, 384, 512, 1024, 2048)},
    is_width=True,
    here=_sve_length,
)
_STREAMING_LENGTH = Setting(
    "svl",
    "streaming vector length",
    {bits: f"sme-default-vector-length={bits // 8}" for bits in (128, 256, 512, 2048)},
    is_width=True,
)
_RVV_LENGTH = Setting("vl", "vector length", {bits: f"vlen={bits}" for bits in (128, 256, 512, 1024)}, is_width=True)
_RVV_TAIL = Setting("tail", "tail policy", {"kept": "rvv_ta_all_1s=off", "ones": "rvv_ta_all_1s=on"})
_RVV_MASK = Setting("masked", "mask policy", {"kept": "rvv_ma_all_1s=off", "ones": "rvv_ma_all_1s=on"})
"""What happens to lanes behind the end of a vector, and to masked-out ones, if an instruction is agnostic of them: a
processor may keep them or fill them with ones, and QEMU can do either."""
_RVV = InstructionSet(
    "riscv64",
    {"clang19": ("-march=rv64gcv",)},
    frozenset({"rvv"}),
    processor=("-cpu", "rv64,v=true,vext_spec=v1.0"),
    settings=(_RVV_LENGTH, _RVV_TAIL, _RVV_MASK),
    # GCC 12 and clang 14 have no intrinsics of it: code that asks whether there are some takes its scalar way.
    compilers=("clang19",),
    # QEMU 7.2 writes a whole register byte by byte, at 6 ns each: softmax took 33 ms a case at -O0, and 5 at -O2.
    spills_slowly=True,
)
_WASM = InstructionSet(
    "wasm32",
    {"wasi": ("-msimd128",)},
    frozenset({"simd128"}),
    emulator=WASM,
    settings=(Setting("engine", "engine", {"native": "native", "node": "node"}),),
    compilers=("wasi",),
    adapter="wasm",
)
ISAS: dict[str, InstructionSet] = {
    "any": InstructionSet(None, emulator=None),
    "runtime": InstructionSet(None),
    # The translator is one more implementation of each instruction.
    "avx2": InstructionSet(
        "x86_64", _alike("-mavx2", "-mfma", "-mf16c"), frozenset({"avx2", "fma", "f16c"}), always_emulated=True
    ),
    "avx512": InstructionSet(
        "x86_64", _alike("-mavx512f", "-mfma", "-mf16c"), frozenset({"avx512f", "fma", "f16c"}), emulator=None
    ),
    "neon": InstructionSet("aarch64", features=frozenset({"neon"})),
    "sve": InstructionSet(
        "aarch64", _alike("-march=armv8.2-a+sve"), frozenset({"neon", "sve"}), settings=(_SVE_LENGTH,)
    ),
    "sve2": InstructionSet(
        "aarch64", _alike("-march=armv8.5-a+sve2"), frozenset({"neon", "sve", "sve2"}), settings=(_SVE_LENGTH,)
    ),
    "sme": InstructionSet(
        "aarch64",
        # Without a frame, a function of clang 19 that streams and calls no other loses its return address.
        {"clang19": ("-march=armv8.2-a+sme", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")},
        frozenset({"neon", "sme"}),
        settings=(_STREAMING_LENGTH,),
        # GCC 12 and clang 14 have no intrinsics of it.
        compilers=("clang19",),
    ),
    "rvv": _RVV,
    # Vectors and scalars of half precision.
    "rvv-fp16": replace(
        _RVV,
        flags={"clang19": ("-march=rv64gcv_zfh_zvfh",)},
        features=frozenset({"rvv", "zfh", "zvfh"}),
        processor=("-cpu", "rv64,v=true,vext_spec=v1.0,Zfh=true"),
    ),
    "simd128": _WASM,
    # Of some instructions the answer is the engine's choice.
    "relaxed-simd": replace(
        _WASM,
        flags={"wasi": ("-msimd128", "-mrelaxed-simd")},
        features=frozenset({"simd128", "relaxed"}),
        settings=(Setting("engine", "engine", {each: each for each in ("deterministic", "native", "node")}),),
    ),
    "vsx": InstructionSet("ppc64le", features=frozenset({"vsx"}), processor=("-cpu", "power10")),
}
"""The instruction sets by the name that a kernel's declaration gives. 'any' is portable C; 'runtime' picks instructions
when it runs, so that it is tried on every architecture."""


def architectures() -> tuple[str, ...]:
    """Return every architecture of some instruction set."""
    return tuple(dict.fromkeys(row.arch for row in ISAS.values() if row.arch is not None and row.emulator is not WASM))


def settings() -> tuple[Setting, ...]:
    """Return every setting of some instruction set."""
    return tuple(dict.fromkeys(setting for row in ISAS.values() for setting in row.settings))
