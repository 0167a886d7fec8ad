"""The request of a check: the arguments of `fuzz.check` as one record, in groups that belong together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from fuzz.core.adapters.python_kernel import Device
from fuzz.core.base.capability import Capabilities
from fuzz.core.base.kernel import Kernel
from fuzz.tasks.check.results import CheckError
from fuzz.tasks.check.setup import CheckSetup, Seed, check_setup
from oracles.formula.contract import Contract
from oracles.op import Op

Arrays = Literal["torch", "numpy"]


@dataclass(frozen=True)
class Promises:
    """What a kernel promises."""

    contract: Contract | Mapping[str, Any] | None = None
    """The whole contract, or the fields in which it differs from the default for kernels that declare nothing."""
    capabilities: Capabilities | None = None
    laws: tuple[str, ...] = ("rerun",)

    @property
    def is_measured(self) -> bool:
        """Whether no complete contract is declared, so that the kernel's arithmetic is measured."""
        return not isinstance(self.contract, Contract)


NOTHING_SAID = Promises()


@dataclass(frozen=True)
class GivenData:
    """The description of the inputs that a reference is drawn with."""

    shapes: Mapping[str, Any] | str | None = None
    example_inputs: Sequence[Any] | Mapping[str, Any] | None = None
    values: Mapping[str, str] | str | None = None
    fixed: Mapping[str, int] | None = None
    any_values: bool = False
    dtypes: Mapping[str, Any] | None = None
    """The dtypes of tensors of the reference, as NumPy or torch have or spell them."""


@dataclass(frozen=True)
class Calling:
    """How a function is called, and what it is called in a report."""

    returns: Sequence[str] = ()
    arrays: Arrays = "torch"
    device: Device = "cpu"
    name: str = ""


@dataclass(frozen=True)
class CheckLimits:
    """The limits of a check, and the cases that it runs first."""

    cases: Iterable[str | Path] = ()
    """Case files, or folders of them."""
    max_cases: int | None = None
    max_time: float | None = None
    seed: Seed = None

    def setup(self, label: str, source: str = "") -> CheckSetup:
        """Return the setup of the check with that label; `source` tells apart functions of one name."""
        return check_setup(label, self.seed, self.max_cases, self.max_time, source)


@dataclass(frozen=True)
class CheckRequest:
    """One check as it was requested. Raises CheckError if its arguments contradict each other."""

    kernel: Kernel | Callable[..., Any]
    op: Op | str | None = None
    reference: Callable[..., Any] | None = None
    oracle: Literal["formula", "replay"] = "formula"
    data: GivenData = GivenData()
    promises: Promises = Promises()
    calling: Calling = Calling()
    targets: Sequence[str] = ()
    """Patterns of the targets to check; all targets if there is no pattern."""
    limits: CheckLimits = CheckLimits()
    noted: str = ""
    """A remark on the arrays that the kernel is given."""

    def __post_init__(self) -> None:
        """Raise CheckError for arguments that exclude each other."""
        if self.oracle not in ("formula", "replay"):
            raise CheckError(f"oracle={self.oracle!r}: it is 'formula' or 'replay'")
        if self.oracle == "replay":
            declared = isinstance(self.kernel, Kernel) or self.op is not None or self.promises.contract is not None
            if declared or self.reference is None:
                raise CheckError(
                    "oracle='replay': a plain function is held against a reference, without op and contract"
                )
        elif self.reference is not None and self.op is not None:
            raise CheckError(f"op={self.op!r}: a kernel is held against an op or a reference, not both")
