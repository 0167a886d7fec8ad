"""Triton's autotuners in the process of a kernel. Nothing is timed there: each configuration is judged as a target of
its own, so an autotuner takes the configuration that the target names. Trial runs would also write elements of an
output that the chosen configuration leaves out."""

from __future__ import annotations

import inspect
import sys
import sysconfig
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from fuzz.core.base.outcome import LeftOutError
from fuzz.core.base.text import id_word
from fuzz.core.transport.python.interpreter import mend

_MODULE = "triton.runtime.autotuner"
_MOST_SEEN = 5000
"""The largest number of objects that are searched for autotuners."""
_MOST_TOLD = 256
"""The largest number of configurations of a kernel that are reported."""
_LIBRARIES = {"site-packages", "dist-packages"}
_HARDWARE = ("num_warps", "num_stages", "num_ctas", "maxnreg", "ir_override")
"""The names of settings that are no parameters of a program unless the program has a parameter of that name. Triton's
interpreter ignores them."""
_PASSED_OVER, _ASSERTS = ("OutOfResources", "CompileTimeAssertionFailure", "PTXASError"), "_new_static_assert"
"""The errors for which an autotuner passes over a configuration, and the interpreter's function that raises one."""
_NO_GPU = ("active drivers", "NVIDIA driver", "not compiled with CUDA", "CUDA GPUs")

Settings = tuple[tuple[str, str], ...]
"""The settings of a configuration as in its target's id: names and values in which the configurations differ."""


@dataclass(frozen=True)
class Choice:
    """One configuration of all autotuners of a kernel."""

    settings: Settings
    places: tuple[int, ...]
    """The place of the configuration of each autotuner, in the order of `tuners_of`."""


@contextmanager
def chosen(tuners: Sequence[Any], places: Sequence[int]) -> Iterator[None]:
    """Within this context, autotuners take the configurations at these places, and other autotuners their first one. No
    trial runs: each looks to Triton as if it had that configuration alone. An interpreter is mended."""
    mend()
    if _MODULE not in sys.modules:
        yield
        return
    from triton.runtime.autotuner import Autotuner

    launch, own = Autotuner.run, {id(each): place for each, place in zip(tuners, places, strict=False)}

    def run(self: Any, *args: Any, **kwargs: Any) -> Any:
        every = self.configs
        if len(every) < 2:
            return launch(self, *args, **kwargs)
        self.nargs = dict(zip(self.arg_names, args, strict=False))
        left = _left(self, kwargs)
        config = every[own[id(self)]] if id(self) in own else left[0]
        if not any(config is each for each in left):
            raise LeftOutError(f"{config} is pruned for this call of {self.base_fn.__name__}")
        self.configs = [config]
        try:
            return launch(self, *args, **kwargs)
        except Exception as error:
            if _is_passed_over(error):
                raise LeftOutError(f"an autotuner passes over {config}: {error}") from None
            raise
        finally:
            self.configs = every

    Autotuner.run = run
    try:
        yield
    finally:
        Autotuner.run = launch


def _is_passed_over(error: BaseException | None) -> bool:
    """Whether an autotuner passes over a configuration that ends with this error: the configuration needs more than the
    device has, or a `tl.static_assert` of the program rules it out."""
    while error is not None:
        trace = error.__traceback__
        while trace is not None and trace.tb_next is not None:
            trace = trace.tb_next
        asserted = trace is not None and trace.tb_frame.f_code.co_name == _ASSERTS
        if asserted or type(error).__name__ in _PASSED_OVER:
            return True
        error = error.__cause__
    return False


def _left(tuner: Any, kwargs: Mapping[str, Any]) -> Sequence[Any]:
    """Return the configurations that pruning leaves for a call: all if pruning asks for a GPU that is not there."""
    try:
        return list(tuner.prune_configs(kwargs))
    except (RuntimeError, AssertionError) as error:
        if any(words in str(error) for words in _NO_GPU):
            return list(tuner.configs)
        raise


def choices_of(tuners: Sequence[Any], *, interpreted: bool) -> tuple[Choice, ...]:
    """Return the choices among a kernel's configurations: each configuration of each autotuner once, together with the
    first ones of the other autotuners. Configurations with the same settings count as one. A kernel with one
    configuration has no choice, so the result is empty."""
    described = [_described(each, interpreted=interpreted) for each in tuners]
    names = Counter(each.base_fn.__name__ for each in tuners)
    several = sum(len({*map(str, each)}) > 1 for each in described) > 1
    found: dict[Settings, tuple[int, ...]] = {}
    for number, configs in enumerate(described):
        for place in range(len(configs)):
            places = tuple(place if each == number else 0 for each in range(len(tuners)))
            settings: list[tuple[str, str]] = []
            for at, (tuner, own, taken) in enumerate(zip(tuners, described, places, strict=True)):
                label = tuner.base_fn.__name__ + (str(at) if names[tuner.base_fn.__name__] > 1 else "")
                settings += [(f"{label}.{name}" if several else name, value) for name, value in _told(own, taken)]
            found.setdefault(tuple(settings), places)
    return tuple(Choice(*each) for each in [*found.items()][:_MOST_TOLD]) if len(found) > 1 else ()


def _described(tuner: Any, *, interpreted: bool) -> Sequence[Mapping[str, str]]:
    """Return what each configuration of an autotuner sets."""
    ignored = {*_HARDWARE} - {*tuner.arg_names} if interpreted else set()
    found = []
    for each in tuner.configs:
        own = {name: id_word(value) for name, value in each.all_kwargs().items() if name not in ignored}
        hook = getattr(each, "pre_hook", None)
        found.append(own | ({"pre_hook": id_word(getattr(hook, "__name__", "yes"))} if hook is not None else {}))
    return found


def _told(configs: Sequence[Mapping[str, str]], place: int) -> Iterator[tuple[str, str]]:
    """Yield the settings of one of the configurations, without those in which all agree."""
    for name in dict.fromkeys(name for each in configs for name in each):
        if len({each.get(name) for each in configs}) > 1:
            yield id_word(name), configs[place].get(name, "none")


def tuners_of(function: Callable[..., Any]) -> tuple[Any, ...]:
    """Return the autotuners with several configurations that a function can reach."""
    if _MODULE not in sys.modules:
        return ()
    from triton.runtime.autotuner import Autotuner

    return tuple(each for each in reached_by(function) if isinstance(each, Autotuner) and len(each.configs) > 1)


def reached_by(function: Callable[..., Any]) -> Iterator[Any]:
    """Yield what a function can reach by the names in its code, and in the code of the functions that it calls.
    Installed libraries are not searched."""
    seen, waiting = set[int](), [function]
    while waiting and len(seen) < _MOST_SEEN:
        each: Any = waiting.pop()
        if id(each) not in seen:
            seen.add(id(each))
            yield each
            waiting += reversed([*_reached(each)])


def _reached(value: Any) -> Iterator[Any]:
    """Yield what the code of a function, or of the methods of a class, refers to, and the object that a value wraps."""
    if isinstance(value, partial):
        yield value.func
    elif isinstance(value, (dict, list, tuple)):
        yield from value.values() if isinstance(value, dict) else value
    elif inspect.ismethod(value):
        yield value.__func__
        yield value.__self__
    elif isinstance(value, FunctionType):
        if not _is_of_library(value.__code__.co_filename):
            yield from _named(value)
    elif isinstance(value, type):
        if not _is_of_library(getattr(sys.modules.get(value.__module__), "__file__", None) or ""):
            yield from (each for each in vars(value).values() if isinstance(each, (FunctionType, staticmethod)))
    elif isinstance(value, staticmethod) or type(value).__module__.startswith("triton."):
        yield getattr(value, "__func__", None) or getattr(value, "fn", None)
    elif not isinstance(value, ModuleType) and hasattr(value, "__dict__"):
        yield type(value)
        yield from vars(value).values()
    if (inner := inspect.getattr_static(value, "__wrapped__", None)) is not None:  # no code of others runs
        yield inner


def _named(function: FunctionType) -> Iterator[Any]:
    """Yield the objects that the names in a function's code stand for: globals, their attributes of such names, and
    variables of closures."""
    names, codes = set[str](), [function.__code__]
    for code in codes:
        names |= {*code.co_names}
        codes += [each for each in code.co_consts if isinstance(each, CodeType)]
    for name in sorted(names):
        value = function.__globals__.get(name)
        yield value
        if isinstance(value, ModuleType) and not _is_of_library(getattr(value, "__file__", None) or ""):
            yield from (vars(value).get(each) for each in sorted(names))
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not set yet
            continue


@cache
def _is_of_library(file: str) -> bool:
    return not file or not _LIBRARIES.isdisjoint(Path(file).parts) or file.startswith(sysconfig.get_path("stdlib"))
