"""One registry for every extension point: a name, a function and what it reads."""

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib.metadata import entry_points
from pathlib import Path
from typing import Generic, ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Plugin(Generic[P, R]):
    """A registered function; ``doc`` is the first line of its docstring, its help text.

    ``timeout_s`` is the longest it may take (0: no limit is set); one that is run ``apart`` may
    hang where nothing can end it, so a process of its own runs it.
    """

    name: str
    run: Callable[P, R]
    every_s: float
    reads: tuple[str, ...]
    doc: str
    timeout_s: float = 0.0
    apart: bool = False


class Registry(Generic[P, R]):
    """The plugins of one package, ours and those installed under its entry point group.

    ``name`` is what the registry is called where it decorates. A module of the package that does
    not hold ``@name(`` registers nothing and is left alone: it may need what is not installed,
    and importing all of them is most of what a short command would wait for.
    """

    def __init__(self, package: str, name: str = "") -> None:
        self._package = package
        self._decorator = f"@{name}(".encode() if name else b""
        self._plugins: dict[str, Plugin[P, R]] = {}
        self._loaded = False

    def __call__(
        self,
        *,
        every_s: float = 0.0,
        reads: tuple[str, ...] = (),
        timeout_s: float = 0.0,
        apart: bool = False,
    ) -> Callable[[Callable[P, R]], Callable[P, R]]:
        """Register a function under its own name; it must have a docstring."""

        def register(run: Callable[P, R]) -> Callable[P, R]:
            name = run.__name__
            if name in self._plugins:
                raise ValueError(f"two plugins named {name} in {self._package}")
            if not run.__doc__:
                raise ValueError(f"{self._package}: {name} needs a docstring: it is its help text")
            doc = run.__doc__.splitlines()[0]
            self._plugins[name] = Plugin(name, run, every_s, reads, doc, timeout_s, apart)
            return run

        return register

    def load(self) -> None:
        """Import the package's modules with plugins once, then whatever others have installed."""
        if self._loaded:
            return
        package = importlib.import_module(self._package)
        for module in pkgutil.iter_modules(package.__path__):
            source = _source(package.__path__, module)
            if source is None or self._decorator in source:
                importlib.import_module(f"{self._package}.{module.name}")
        for entry_point in entry_points(group=self._package):
            entry_point.load()
        self._loaded = True

    def __iter__(self) -> Iterator[Plugin[P, R]]:
        self.load()
        return iter(sorted(self._plugins.values(), key=lambda plugin: plugin.name))

    def __getitem__(self, name: str) -> Plugin[P, R]:
        self.load()
        return self._plugins[name]


def _source(folders: Iterable[str], module: pkgutil.ModuleInfo) -> bytes | None:
    """The text of a module or of a package's own; None where there is no such file."""
    name = f"{module.name}/__init__.py" if module.ispkg else f"{module.name}.py"
    for folder in folders:
        try:
            return (Path(folder) / name).read_bytes()
        except OSError:
            continue
    return None
