"""Every regular expression of the package: compiled ones by looking into its modules, inline ones by its syntax."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from types import ModuleType

import retrieve_cli

PACKAGE = Path(retrieve_cli.__file__).parent
METHODS = ("match", "fullmatch", "search", "finditer", "findall", "split", "sub", "subn")
_NAMES = "|".join(METHODS)
_FLAGS_AT = {"compile": 1, "match": 2, "fullmatch": 2, "search": 2, "finditer": 2, "findall": 2, "split": 3, "sub": 4,
             "subn": 4}  # fmt: skip


@dataclass(frozen=True)
class Used:
    """A pattern, its flags, how it is used, and where."""

    pattern: str
    flags: int
    methods: tuple[str, ...]
    where: str


@dataclass(frozen=True)
class Unknown:
    """A pattern that is put together when the program runs: what it is, a test must say."""

    source: str
    where: str


def files() -> list[str]:
    """Return the files of the package that have regular expressions, without importing them."""
    return [
        path.relative_to(PACKAGE).as_posix()
        for path in sorted(PACKAGE.rglob("*.py"))
        if re.search(r"^\s*(?:import re\b|from re import)", path.read_text("utf-8"), re.MULTILINE)
    ]


def of_file(file: str) -> Iterator[Used | Unknown]:
    """Yield the patterns of a file of the package.

    Raises:
        ImportError: it needs a package that is not installed.
    """
    module = importlib.import_module(_module(file))
    tree = ast.parse(_text(PACKAGE / file))
    own = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and _function(node)]
    compiled = {(pattern.pattern, pattern.flags) for _, pattern in _objects(module)}
    for name, pattern in _objects(module):
        if isinstance(pattern.pattern, str):
            methods = _methods(file, name) or METHODS[:4]
            yield Used(pattern.pattern, pattern.flags & ~re.UNICODE, tuple(sorted(methods)), f"{file}: {name}")
    for call in own:
        yield from _inline(call, module, file, compiled)


def _objects(module: ModuleType) -> Iterator[tuple[str, re.Pattern[str]]]:
    """Yield the patterns that a module keeps, by the name that holds each."""
    for name, value in vars(module).items():
        if not name.startswith("__"):
            yield from ((name, pattern) for pattern in _inside(value, module.__name__, 0))


def _inside(value: object, module: str, depth: int) -> Iterator[re.Pattern[str]]:
    if isinstance(value, re.Pattern):
        yield value
    if depth > 4:
        return
    parts: tuple[object, ...] = ()
    if isinstance(value, Mapping):
        parts = (*value, *value.values())
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = tuple(value)
    elif isinstance(value, partial):
        parts = (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, type) and value.__module__ == module:
        parts = tuple(vars(value).values())
    elif isinstance(getattr(value, "__self__", None), re.Pattern):
        parts = (value.__self__,)  # type: ignore[attr-defined]
    for part in parts:
        yield from _inside(part, module, depth + 1)


def _inline(call: ast.Call, module: ModuleType, file: str, compiled: set[tuple[str, int]]) -> Iterator[Used | Unknown]:
    """Yield the pattern of one `re.…(…)`; what it is comes from the module's own names."""
    function = _function(call)
    source = ast.unparse(call.args[0])
    where = f"{file}: re.{function}({source})"
    at = _FLAGS_AT[function]
    flags = next((word.value for word in call.keywords if word.arg == "flags"), None)
    flags = flags or (call.args[at] if len(call.args) > at else None)
    try:
        pattern = _value(call.args[0], module)
        options = int(_value(flags, module)) if flags is not None else 0  # type: ignore[call-overload]
    except NameError:
        yield Unknown(source, where)
        return
    if isinstance(pattern, str) and function != "compile":
        yield Used(pattern, options, (function,), where)
    elif isinstance(pattern, str) and (pattern, re.compile(pattern, options).flags) not in compiled:
        yield Used(pattern, options, METHODS[:4], where)


def _value(node: ast.expr, module: ModuleType) -> object:
    return eval(compile(ast.Expression(node), module.__name__, "eval"), dict(vars(module)))  # our own source


def _function(call: ast.Call) -> str:
    """Return the function of `re` that is called; empty if it is another."""
    function = call.func
    if isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id == "re":
        return function.attr if function.attr in _FLAGS_AT and call.args else ""
    return ""


def _methods(file: str, name: str) -> set[str]:
    """Return the methods by which a pattern is used: in its file, in those that import its name; else any of its file.

    A name is used as `NAME.method`; what stands in a list is used by another name.
    """
    own = _text(PACKAGE / file)
    importing = [
        text for text in map(_text, _paths()) if re.search(rf"^ *from .*import .*\b{name}\b", text, re.MULTILINE)
    ]
    used = {method for text in (own, *importing) for method in re.findall(rf"\b{name}\.({_NAMES})\b", text)}
    return used or set(re.findall(rf"(?<!\bre)\.({_NAMES})\(", own)) - {"split", "sub", "subn"}


@cache
def _paths() -> tuple[Path, ...]:
    return tuple(PACKAGE.rglob("*.py"))


@cache
def _text(path: Path) -> str:
    return path.read_text("utf-8")


def _module(file: str) -> str:
    return "retrieve_cli." + file.removesuffix(".py").replace("/", ".")
