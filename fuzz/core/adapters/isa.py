"""Instruction sets, the settings that they leave open, and emulators, as rows of data. What a worker observes about
itself is in the header of its architecture, `native/ARCH.h`."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

Flags = Mapping[str, tuple[str, ...]]
"""Compiler flags by family of compilers."""
Value = int | str
"""The value of a setting."""


@dataclass(frozen=True, eq=False)
class Emulator:
    """A program that runs code for another processor."""

    site: str
    """The site in the ids of targets."""
    programs: tuple[str, ...]
    """The names of the program on different systems. The first one that is installed is used."""
    package: str
    processors: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The options that choose the fullest processor, by architecture, if they are not `-cpu max`."""
    limits: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """The options that limit what the guest may do to its host, by architecture."""
    hides_preload: tuple[str, ...] = ()
    """The options that hide a preloaded library from the guest. Without any, none is preloaded."""
    sysroot_option: str = "-L"
    """The option before the folder in which the guest finds its system's libraries."""
    attested: frozenset[str] = frozenset({"tcg", "unknown"})
    """The emulators that a worker may attest. 'none' would be hardware."""


QEMU = Emulator(
    "qemu",
    # The dynamically linked one can preload a library that makes it faster; see `emulator_helper`.
    ("qemu-{arch}", "qemu-{arch}-static"),
    "qemu-user",
    {"riscv64": ("-cpu", "rv64,v=true,vext_spec=v1.0,Zfh=true"), "ppc64le": ("-cpu", "power10")},
    # Without a bound on its memory, a guest that asks for more than the worker's limit keeps QEMU searching for a free
    # range until it times out. An x86-64 guest has no bound here, since it needs its vsyscall page beyond any.
    {"aarch64": ("-R", "4G"), "riscv64": ("-R", "4G"), "ppc64le": ("-R", "4G")},
    ("-U", "LD_PRELOAD"),
)


WASM = Emulator("wasm", (), "", attested=frozenset({"wasm"}))
"""Engines of WebAssembly. `adapters/wasm.py` knows how to start them."""


@dataclass(frozen=True, eq=False)
class Setting:
    """A property that an instruction set leaves to the processor, such as the length of vectors, and that an emulator
    can vary. There is a target for each value. The value is part of the target's id, and the worker must attest it."""

    word: str
    """The name of the setting in the ids of targets, and in the line `settings` that a worker attests, such as 'vl'."""
    trait: str
    """The name of the setting as a property of a target, in causes and in rules of failing, such as 'vector length'."""
    options: Mapping[Value, str]
    """The values that are tried, each with the property of the emulator's processor that sets it."""
    is_width: bool = False
    """Whether the values are the width of vectors in bits, which determines the number of their lanes."""
    here: Callable[[], Value | None] = lambda: None
    """Returns this machine's value, if its processor has the instruction set, or None if unknown."""

    def __post_init__(self) -> None:
        """Raise ValueError for a word that cannot be in an id, and for widths that are no numbers."""
        if not self.word.isalnum() or not self.options:
            raise ValueError(f"setting {self.word!r}: a word of letters and digits, and at least one value")
        if self.is_width and not all(isinstance(value, int) and value > 0 for value in self.options):
            raise ValueError(f"setting {self.word!r}: widths are numbers of bits")


Settings = tuple[tuple[Setting, Value], ...]
"""Settings, each with its value."""


@dataclass(frozen=True, eq=False)
class InstructionSet:
    """The needs of code for an instruction set: compilers, processors and emulators."""

    arch: str | None
    """The architecture, or None for portable code, which runs on any."""
    flags: Flags = field(default_factory=dict)
    features: frozenset[str] = frozenset()
    """The processor features that the flags let the compiler use. The worker must attest all of them."""
    emulator: Emulator | None = QEMU
    """The emulator that has the instruction set. None if there is no emulator, or if emulation shows nothing new."""
    processor: tuple[str, ...] = ("-cpu", "max")
    """The options that choose an emulated processor with this instruction set. Those of settings are appended."""
    always_emulated: bool = False
    """Whether the instruction set is emulated even if the real processor is here."""
    settings: tuple[Setting, ...] = ()
    """The settings that the instruction set leaves open. It is emulated once with each combination of their values."""
    compilers: tuple[str, ...] = ()
    """The families of compilers that know the instruction set, if the usual ones do not."""
    adapter: str = "c"
    """The name of the adapter for code of this instruction set."""
    spills_slowly: bool = False
    """Whether the emulator takes long to write a vector. Code without optimisation writes one after every step."""

    def __post_init__(self) -> None:
        """Raise ValueError for settings that no emulator varies, that share a word, or of which several are widths."""
        words = [setting.word for setting in self.settings]
        if self.settings and self.emulator is None:
            raise ValueError(f"settings {', '.join(words)}: an emulator varies them")
        if len({*words}) < len(words) or sum(setting.is_width for setting in self.settings) > 1:
            raise ValueError(f"settings {', '.join(words)}: each has a word of its own, and one is a width at most")

    @property
    def emulated_here(self) -> bool:
        """Whether the instruction set is emulated even if the real processor is here, also to vary its settings."""
        return self.always_emulated or bool(self.settings)

    @property
    def combinations(self) -> tuple[Settings, ...]:
        """All combinations of the values of all settings."""
        each = [[(setting, value) for value in setting.options] for setting in self.settings]
        return tuple(tuple(values) for values in product(*each))

    def processor_with(self, settings: Settings, arch: str) -> tuple[str, ...]:
        """Return the options by which the emulator chooses a processor of this architecture with these settings."""
        any_there = self.emulator.processors if self.emulator is not None and self.arch is None else {}
        *options, processor = any_there.get(arch, self.processor)
        return (*options, ",".join([processor, *(setting.options[value] for setting, value in settings)]))


def _alike(*flags: str) -> Flags:
    """Return the same flags for gcc and for clang."""
    return dict.fromkeys(("gcc", "clang"), flags)


def _sve_length() -> int | None:
    """Return the vector length in bits that the kernel gives to new processes, or None: the low 16 bits of
    prctl(PR_SVE_GET_VL) are the length in bytes."""
    pr_sve_get_vl, length_mask = 51, 0xFFFF
    answer = int(ctypes.CDLL(None).prctl(pr_sve_get_vl, 0, 0, 0, 0))
    return (answer & length_mask) * 8 if answer > 0 else None


_SVE_LENGTH = Setting(
    "vl",
    "vector length",
    # The lengths are in bytes. sveNNN=on does not set the length, which is silently capped. 384 is legal and no power
    # of two.
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
"""What happens to lanes behind the end of a vector, and to masked-out lanes, if an instruction leaves them open: a
processor may keep them or fill them with ones, and QEMU can do either."""
_RVV = InstructionSet(
    "riscv64",
    {"clang19": ("-march=rv64gcv",)},
    frozenset({"rvv"}),
    processor=("-cpu", "rv64,v=true,vext_spec=v1.0"),
    settings=(_RVV_LENGTH, _RVV_TAIL, _RVV_MASK),
    # GCC 12 and clang 14 have no intrinsics for RVV. Code that checks for intrinsics takes its scalar way there.
    compilers=("clang19",),
    # QEMU 7.2 writes a register byte by byte, at 6 ns each: softmax took 33 ms a case at -O0, and 5 ms at -O2.
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
    # QEMU's translator is one more implementation of each instruction.
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
        # without a frame, a leaf function of clang 19 in streaming mode loses its return address
        {"clang19": ("-march=armv8.2-a+sme", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer")},
        frozenset({"neon", "sme"}),
        settings=(_STREAMING_LENGTH,),
        # GCC 12 and clang 14 have no intrinsics for SME
        compilers=("clang19",),
    ),
    "rvv": _RVV,
    # vectors and scalars of half precision
    "rvv-fp16": replace(
        _RVV,
        flags={"clang19": ("-march=rv64gcv_zfh_zvfh",)},
        features=frozenset({"rvv", "zfh", "zvfh"}),
        processor=("-cpu", "rv64,v=true,vext_spec=v1.0,Zfh=true"),
    ),
    "simd128": _WASM,
    # the engine chooses the results of some instructions
    "relaxed-simd": replace(
        _WASM,
        flags={"wasi": ("-msimd128", "-mrelaxed-simd")},
        features=frozenset({"simd128", "relaxed"}),
        settings=(Setting("engine", "engine", {each: each for each in ("deterministic", "native", "node")}),),
    ),
    "vsx": InstructionSet("ppc64le", features=frozenset({"vsx"}), processor=("-cpu", "power10")),
}
"""The instruction sets by their names in declarations of kernels. 'any' is portable C. Code for 'runtime' chooses
instructions when it runs, so it is tried on every architecture."""


def architectures() -> tuple[str, ...]:
    """Return every architecture of some instruction set."""
    return tuple(dict.fromkeys(row.arch for row in ISAS.values() if row.arch is not None and row.emulator is not WASM))


def settings() -> tuple[Setting, ...]:
    """Return every setting of some instruction set."""
    return tuple(dict.fromkeys(setting for row in ISAS.values() for setting in row.settings))
