"""Options: each command declares them as the fields of a frozen dataclass, from which its parameters are made. Times
are written as 30s, 5m or 8h."""

from __future__ import annotations

import inspect
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_origin, get_type_hints

import typer
from typer.models import OptionInfo

if TYPE_CHECKING:
    from fuzz.core.adapters.pack import Pack
    from fuzz.core.adapters.target import Target
    from fuzz.core.adapters.toolchain import Host
    from fuzz.core.base.kernel import Kernel
    from fuzz.extras.fleet.engine import DaskEngine


_DURATION = re.compile(r"(\d+(?:\.\d+)?)(s|m|h)?")
_SECONDS = {"h": 3600.0, "m": 60.0, "s": 1.0, None: 1.0}


def seconds(text: str) -> float:
    """Return the seconds in '30s', '5m', '8h' or a plain number. Raises ValueError, which says what to write."""
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(f"{text!r} is not a time: write 30s, 5m or 8h")
    found = float(match[1]) * _SECONDS[match[2]]
    if found == 0:
        raise ValueError("must be more than 0")
    return found


def written(duration: float) -> str:
    """Return the shortest text for this many seconds that `seconds` can read: '8h', '90s', '0.5s'."""
    unit = next(unit for unit, size in _SECONDS.items() if duration % size == 0 or unit == "s")
    return f"{duration / _SECONDS[unit]:g}{unit}"


def duration(text: str) -> float:
    """Return the seconds in '30s', '5m', '8h' or a plain number. Raises typer.BadParameter."""
    try:
        return seconds(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def timed(name: str, metavar: str, text: str, **more: Any) -> Any:
    """Return an option whose value is a time."""
    return typer.Option(name, parser=duration, metavar=metavar, help=text, **more)


def add_verbs(app: typer.Typer, verbs: Iterable[Callable[[Any], int]], heading: str | None = None) -> None:
    """Make each verb a command of its name, under a heading of the help. A verb is a function that takes its options as
    a dataclass.

    A field whose type is a dataclass is a group, whose fields are options too. A tuple is an option that can be
    repeated. Repeating any other option with a value is an error, since all values but one would be ignored.
    """
    for verb in verbs:
        app.command(verb.__name__.strip("_").replace("_", "-"), rich_help_panel=heading)(_command(verb))


def _command(verb: Callable[[Any], int]) -> Callable[..., int]:
    """Return the function that typer calls for `verb`, with a parameter for each option."""
    [kind] = [hint for name, hint in get_type_hints(verb).items() if name != "return"]

    def call(**values: Any) -> int:
        return verb(_filled(kind, values))

    call.__doc__ = _paragraphs(verb.__doc__ or "")
    call.__signature__ = inspect.Signature(list(_parameters(kind)))  # type: ignore[attr-defined]
    return call


def _paragraphs(text: str) -> str:
    """Return a docstring with each paragraph on one line, which typer wraps to the width of the terminal."""
    return "\n\n".join(" ".join(each.split()) for each in text.split("\n\n"))


def _parameters(kind: Any, group: object = None) -> Iterator[inspect.Parameter]:
    """Yield the options of a dataclass as parameters; `group` has the defaults of a dataclass that is a field."""
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        hint: Any = hints[field.name]
        if is_dataclass(hint):
            assert field.default_factory is not MISSING, f"the group {field.name} has defaults"
            yield from _parameters(hint, field.default_factory())
            continue
        default = getattr(group, field.name, field.default)
        option, parameter = get_args(hint)
        if isinstance(parameter, OptionInfo) and parameter.parser is duration and isinstance(default, float):
            default = written(default)  # the help shows it as people write it
        if get_origin(option) is tuple:
            [item, _] = get_args(option)
            option, default = list[item] | None, default or None  # type: ignore[valid-type]
        elif _has_one_value(option, parameter):
            # It is read as a list, since the parser would silently keep only the last of several values.
            [item] = {*get_args(option)} - {type(None)} or {option}
            option, default = list[item], default if default in (None, MISSING) else [default]  # type: ignore[valid-type]
            parameter = copy(parameter)
            parameter.metavar = parameter.metavar or f"<{item.__name__.lower()}>"  # not <list[int]>
        empty = inspect.Parameter.empty if default is MISSING else default
        annotation = Annotated[option, parameter]  # type: ignore[valid-type]
        yield inspect.Parameter(field.name, inspect.Parameter.KEYWORD_ONLY, default=empty, annotation=annotation)


def _has_one_value(option: Any, parameter: object) -> bool:
    return isinstance(parameter, OptionInfo) and option is not bool


def _filled(kind: Any, values: Mapping[str, Any]) -> Any:
    """Return the options as a dataclass, with the values that typer read."""
    given: dict[str, Any] = {}
    for name, hint in get_type_hints(kind, include_extras=True).items():
        if is_dataclass(hint):
            given[name] = _filled(hint, values)
            continue
        option, parameter = get_args(hint)
        if get_origin(option) is tuple:
            given[name] = tuple(values[name] or ())
        else:
            given[name] = _one(name, parameter, values[name]) if _has_one_value(option, parameter) else values[name]
    return kind(**given)


def _one(name: str, parameter: OptionInfo, values: Sequence[object] | None) -> object:
    """Return the value of an option that can be given only once. Raises UsageError if it was given more often."""
    if values and len(values) > 1:
        from fuzz.core.base.errors import UsageError

        declared = [each for each in (parameter.default, *(parameter.param_decls or ())) if isinstance(each, str)]
        called = declared[-1] if declared else f"--{name.replace('_', '-')}"
        shown = " and ".join(written(value) if isinstance(value, float) else str(value) for value in values)
        times = "twice" if len(values) == 2 else f"{len(values)} times"
        raise UsageError(f"{called} was given {times}: {shown}; give one, or run the command once for each")
    return values[0] if values else None


PackFolder = Annotated[
    Path | None, typer.Option("--pack", help="Folder of kernels with a pack.py. Default: the built-in kernels.")
]
KeptCase = Annotated[
    str,
    typer.Argument(
        help="A case file; the beginning of a finding's name or digest; or SEED:OP:SHARD:NUMBER, a case of a search.",
        show_default=False,
    ),
]
Findings = Annotated[
    Path,
    typer.Option("--findings", help="The folder that has the findings: the --output of `run`, or a nightly's --state."),
]
Untrusted = Annotated[
    bool,
    typer.Option(
        "--untrusted", help="Run the kernels in a sandbox: no network, nothing to write to, a few files to read."
    ),
]
Targets = Annotated[
    tuple[str, ...],
    typer.Option("--target", help="Only targets that match this glob, e.g. 'c-sve@*'. Repeatable, or comma-separated."),
]
Keyword = Annotated[
    str | None, typer.Option("-k", metavar="EXPR", help="Only targets whose name matches, e.g. 'sve and not O0'.")
]
Json = Annotated[Path | None, typer.Option("--json", help="Write machine-readable records to this file.")]
FailFast = Annotated[bool, typer.Option("--fail-fast", help="Stop at the first case that fails, and explain it.")]
Verbose = Annotated[
    bool,
    typer.Option("-v", "--verbose", help="List each target, and everything that did not run or was not exercised."),
]
Engine = Annotated[
    str,
    typer.Option(
        "--engine",
        metavar="local|dask://HOST:PORT",
        help="Search on this machine, or on the workers of a Dask scheduler. Whoever reaches that scheduler can run "
        "any program on its workers.",
    ),
]


def engine_of(name: str, pack: Path | None, untrusted: bool) -> DaskEngine | None:
    """Return the cluster with this address; None for this machine's own processes. Dask is loaded only for a cluster.
    Raises UsageError."""
    if name == "local":
        return None
    from fuzz.extras.fleet.engine import engine_at

    return engine_at(name, pack, untrusted)


_STORE = "KERNELFUZZ_STORE"


def _kept_apart(store: list[str] | None) -> list[str] | None:
    """Return the store, and remove it from the environment: its URL may hold a password that no kernel may inherit."""
    os.environ.pop(_STORE, None)
    return store


Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        envvar=_STORE,
        callback=_kept_apart,
        metavar="URL",
        help="Database of the findings of all nights, for one or many machines: postgresql://USER@HOST/NAME or "
        "sqlite:///FILE.",
    ),
]
StorePlace = Annotated[
    str, typer.Argument(metavar="URL|DIR", help="The URL of a store, or a night's --state folder.", show_default=False)
]
Markdown = Annotated[bool, typer.Option("--markdown", help="Print a Markdown table.")]
Output = Annotated[Path, typer.Option("--output", help="Folder for the case files of findings.")]
Corpora = Annotated[
    Path | None,
    typer.Option("--corpora", help="The folder of kept cases. Default: corpora/ in the checkout or in this folder."),
]
Jobs = Annotated[
    int, typer.Option("-j", "--jobs", min=0, help="Targets that run at the same time. 0: one per processor.")
]
Cache = Annotated[
    Path | None,
    typer.Option(
        "--cache",
        metavar="DIR",
        help="Folder for compiled kernels. Default: $KERNELFUZZ_CACHE or ~/.cache/kernelfuzz.",
    ),
]
Processes = Annotated[int, typer.Option("-j", "--jobs", min=0, help="Processes that search. 0: one per processor.")]
CaseLimit = Annotated[
    float | None,
    typer.Option(
        "--case-limit",
        parser=duration,
        metavar="5s",
        help="A case that takes longer is a TIMEOUT. Default: 5s, or 30s to 120s for kernels that are compiled first, "
        "but at most a quarter of --max-time.",
    ),
]
Sanitize = Annotated[
    bool,
    typer.Option(
        "--sanitize",
        help="Also run GPU kernels under compute-sanitizer: slow, but it finds reads outside tensors, reads of memory "
        "that was never written, and races in shared memory.",
    ),
]
Report = Annotated[
    tuple[str, ...],
    typer.Option(
        "--report",
        metavar="FORMAT=FILE",
        help="Write a report: text, json, junit, sarif, github or comment. Without =FILE to stdout. Repeatable.",
    ),
]
Require = Annotated[
    tuple[str, ...],
    typer.Option("--require", help="Targets that must run, as a glob: exit code 10 if one does not. Repeatable."),
]


@dataclass(frozen=True)
class Selection:
    """The options that choose targets of a pack."""

    op: Annotated[
        tuple[str, ...],
        typer.Option("--op", help="Only kernels of ops that match this glob. Repeatable, or comma-separated."),
    ] = ()
    target: Targets = ()
    keyword: Keyword = None

    @property
    def ops(self) -> str:
        """The globs of ops, separated by commas."""
        return ",".join(self.op) or "*"

    def targets(self, pack: Pack, others: Sequence[Host] = (), *, sanitize: bool = False) -> tuple[Target, ...]:
        """Return the chosen targets of a pack, with those of other machines and, with `sanitize`, those where a
        sanitizer watches a kernel on a GPU. Raises SelectionError if there are none."""
        from fuzz.campaign.starting import select_targets

        return select_targets(pack.kernels, self.ops, self.target, self.keyword, others, sanitize=sanitize)

    def repeated(self, *words: str) -> str:
        """Return a command line that begins with `words` and chooses the same targets."""
        named = [word for pattern in self.target for word in ("--target", pattern)]
        named += ["-k", self.keyword] if self.keyword else []
        named += ["--op", self.ops] if self.ops != "*" else []
        return shlex.join(["kernelfuzz", *words, *named])


@dataclass(frozen=True)
class Explaining:
    """The options for findings after the search."""

    no_shrink: Annotated[
        bool, typer.Option("--no-shrink", help="Report findings as they were found, neither shrunk nor explained.")
    ] = False
    explain_time: Annotated[
        float,
        typer.Option(
            "--explain-time",
            parser=duration,
            metavar="45s",
            help="Processor time to shrink and explain one finding after the search; all get at most ten times that.",
        ),
    ] = 45.0

    @property
    def seconds(self) -> float | None:
        """The seconds for one finding; None if findings are shown as they were found."""
        return None if self.no_shrink else self.explain_time


def use_cache(folder: Path | None) -> None:
    """Have this process and its workers keep everything that they compile in a folder."""
    if folder is not None:
        os.environ["KERNELFUZZ_CACHE"] = str(folder.absolute())


def loaded(pack: Path | None, *, sources: bool = True, untrusted: bool = False) -> Pack:
    """Return the pack in a folder, or the built-in one. Without `sources`, its kernels need not be written yet. With
    `untrusted`, they run in a sandbox. Raises PackError."""
    from fuzz.core.adapters.pack import load

    found = load(pack, sources=sources, rehearsed=True)
    return found.distrusted() if untrusted else found


def declared_kernels(pack: Path | None) -> tuple[Kernel, ...]:
    """Return the kernels in a folder, or the built-in ones, which need not be written yet; an empty tuple if there is
    no pack, since the known ops need none. Raises PackError."""
    from fuzz.core.adapters.pack import found

    return loaded(pack, sources=False).kernels if pack or found() else ()


def pack_words(pack: Path | None, untrusted: bool = False) -> tuple[str, ...]:
    """Return the options that name the pack, none for the built-in one, and that say whether it is untrusted."""
    return (*(("--pack", str(pack)) if pack else ()), *(("--untrusted",) if untrusted else ()))


def given(**values: object) -> tuple[str, ...]:
    """Return the words of options on a command line, by the options' names; None and False give no words."""
    words: list[str] = []
    for name, value in values.items():
        if value is not None and value is not False:
            shown = () if value is True else (written(value) if isinstance(value, float) else str(value),)
            words += [f"--{name.replace('_', '-')}", *shown]
    return tuple(words)
