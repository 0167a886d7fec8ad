"""A task: what every front door makes of kernels, and one driver judges."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from fuzz.campaign.corpus.folder import Kept as Known
from fuzz.contracts.accepts import Accepted
from fuzz.core.adapters.target import Target
from fuzz.core.base.kernel import Kernel
from fuzz.references.examples import GIVEN
from oracles.formula.contract import Contract
from oracles.operand import Kept


@dataclass(frozen=True)
class Data:
    """What a task is judged on besides the cases that are drawn for it."""

    known: Sequence[Known] = ()
    """The cases that come first."""
    always: Mapping[str, Kept] = field(default_factory=dict)
    """What the inputs always are in the examples that come with it."""
    source: str = GIVEN
    """Where these examples come from, in words."""


@dataclass(frozen=True)
class Task:
    """Kernels, what they should compute, what they promise, and the data that they are judged on."""

    targets: Sequence[Target]
    """Where the kernels run; all are kernels of one op."""
    data: Data = Data()
    measures: bool = False
    """Whether nothing is declared of the kernels, so that they are measured."""
    looks_far: bool = True
    """Whether the longest extents are tried at the end."""
    taken: Accepted | None = None
    """The extents that its kernel takes, if it does not take all."""

    @cached_property
    def searched(self) -> Sequence[Target]:
        """The targets as they are searched: with the extents that are taken."""
        return self.targets if self.taken is None else [self.taken.narrowed(each) for each in self.targets]

    @property
    def kernels(self) -> Sequence[Kernel]:
        """The kernels, each once."""
        return [*{target.kernel.name: target.kernel for target in self.targets}.values()]

    @property
    def op(self) -> str:
        """The name of the op that says what they should compute."""
        return self.targets[0].kernel.op

    @property
    def contract(self) -> Contract:
        """What the first of them promises where it runs."""
        return self.targets[0].contract
