"""The configurations of a kernel in Python, each of which is a target: those that the kernel declares, and those of its
autotuners, which a worker that has loaded the source reports."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Protocol

import msgspec

from fuzz.core.adapters.build import BuildError
from fuzz.core.adapters.target import AttestationError, Configuration, Target, TargetId, Unavailable
from fuzz.core.base.capability import DeclarationError
from fuzz.core.base.text import id_word
from fuzz.core.transport.ending import EndedError
from fuzz.core.transport.process import START_LIMIT_S, Process
from fuzz.core.transport.steps import taken

MOST_RUN = 16
"""The most configurations of a kernel that are run on a device, each by a process of its own. Chosen."""
_NAME = re.compile(r"[A-Za-z0-9_.+-]{1,96}")
_found: dict[str, tuple[Configuration, ...]] = {}
"""The configurations that workers reported, by what the workers were started with: each source is loaded only once."""


def settings_of(configs: Sequence[Mapping[str, object]]) -> list[tuple[tuple[str, str], ...]]:
    """Return the settings of each of a kernel's configurations, in words that may be in an id. Raises DeclarationError
    for two configurations with the same words."""
    names = dict.fromkeys(name for each in configs for name in each)
    found = [tuple((id_word(name), id_word(each.get(name, "none"))) for name in names) for each in configs]
    for place, each in enumerate(found):
        if each in found[:place]:
            raise DeclarationError(
                f"configs: {', '.join('='.join(pair) for pair in each) or 'none'}: it is there twice"
            )
    return found


def usual(targets: Iterable[Target]) -> tuple[Target, ...]:
    """Return the targets, each kernel in one of its configurations wherever it runs."""
    found: dict[TargetId, Target] = {}
    for each in targets:
        found.setdefault(unconfigured(each), each)
    return tuple(found.values())


def unconfigured(target: Target) -> TargetId:
    """Return the name of a target without its configuration."""
    settings = tuple(pair for pair in target.name.settings if pair not in target.configuration.settings)
    return replace(target.name, settings=settings)


def each_of(target: Target, declared: Sequence[Configuration], tuned: Sequence[Configuration]) -> Iterator[Target]:
    """Yield a target for each configuration of a kernel where it runs."""
    for each in joined(declared, tuned):
        yield replace(target, name=replace(target.name, settings=each.settings), configuration=each)


def joined(declared: Sequence[Configuration], tuned: Sequence[Configuration]) -> list[Configuration]:
    """Return the configurations of a kernel: those that it declares, and those of its autotuners, each with the first
    declared one. If there are many, some of them are run, spread over all."""
    [first, *more], [usual, *others] = declared or [Configuration()], tuned or [Configuration()]
    every = [*(_both(each, usual) for each in (first, *more)), *(_both(first, each) for each in others)]
    run = {place * len(every) // MOST_RUN for place in range(MOST_RUN)}
    spare = f"{MOST_RUN} of its {len(every)} configurations are run, spread over all of them; this is another one"
    many = len(every) > MOST_RUN
    return [replace(each, spare=spare if many and place not in run else "") for place, each in enumerate(every)]


def _both(one: Configuration, other: Configuration) -> Configuration:
    return Configuration((*one.settings, *other.settings), one.options, other.choices)


class _Told(Protocol):
    @property
    def configurations(self) -> str: ...


class _Program(Protocol):
    @property
    def order(self) -> str: ...

    def process(self, limit: float) -> Process: ...

    def attested(self, hello: str) -> _Told: ...


def told_by_worker(program: _Program) -> tuple[Configuration, ...]:
    """Return the configurations of a kernel's autotuners, as a worker reports them. The result is empty if no worker
    starts; the reason is reported when the kernel runs."""
    if program.order not in _found:
        _found[program.order] = _told(program)
    return _found[program.order]


def _told(program: _Program) -> tuple[Configuration, ...]:
    try:
        process = program.process(START_LIMIT_S)
    except OSError:
        return ()
    try:
        return read(program.attested(taken(process.hello())).configurations)
    except (EndedError, BuildError, AttestationError, Unavailable):
        return ()
    finally:
        process.close()


def read(text: str) -> tuple[Configuration, ...]:
    """Return the configurations in a worker's hello. Raises AttestationError for text that no worker of ours writes."""
    try:
        found = msgspec.json.decode(text, type=list[tuple[list[tuple[str, str]], list[int]]])
    except msgspec.DecodeError as error:
        raise AttestationError(f"it says its configurations in no words of ours: {error}") from error
    if not all(_NAME.fullmatch(word) for settings, _ in found for pair in settings for word in pair):
        raise AttestationError(f"it says its configurations in no words of ours: {json.dumps(found)[:100]}")
    return tuple(Configuration(tuple(settings), (), tuple(places)) for settings, places in found)


def misfit(wanted: Configuration, told: str, choices: tuple[int, ...]) -> list[str]:
    """Return why a worker, by its report, is not in the configuration of its target; an empty list if it is."""
    settings = next((each.settings for each in read(told) if each.choices == choices), ())
    if choices == wanted.choices and settings and wanted.settings[-len(settings) :] == settings:
        return []
    return [f"the configuration {wanted.text} was requested, the worker runs {Configuration(settings).text or 'none'}"]
