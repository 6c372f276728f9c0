"""The text of the package, parsed once in a process: for laws that hold in every file of it."""

import ast
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import retrieve_cli

PACKAGE = Path(retrieve_cli.__file__).parent
_PAGE = Path(__file__).resolve().parents[1] / "docs" / "architecture.md"
_PLAN = "".join(_PAGE.read_text("utf-8").partition("```text\n__main__ ")[1:]).split("```")[1]
_ROOMS = re.compile(r"^((?:[a-z_]+ )*[a-z_]+)(?: {2,}.*)?$", re.MULTILINE)
FLOORS = [line.split() for line in _ROOMS.findall(_PLAN.removeprefix("text\n").partition("\n\n")[0])][::-1]
"""The rooms of each floor, the ground first, as docs/architecture.md lists them."""


@dataclass(frozen=True)
class Parsed:
    """What the laws ask of a file; its syntax tree, which takes ten times the memory, is not kept."""

    path: str
    """Relative to the package, with `/`."""
    opening: str | None
    """The docstring of the module."""
    imports: list[ast.Import | ast.ImportFrom] = field(default_factory=list)
    docstrings: list[ast.Constant] = field(default_factory=list)
    """Of modules, classes, functions and attributes: each text that is a statement."""
    constants: list[ast.Constant] = field(default_factory=list)
    """Texts that are not docstrings; of an f-string, its constant parts."""
    classes: list[str] = field(default_factory=list)
    """Names of classes, inner ones included."""
    functions: list[tuple[str, int]] = field(default_factory=list)
    """Names of functions, and the lines of their statements: without signature, docstring and functions inside."""
    calls: list[tuple[str, int]] = field(default_factory=list)
    """Names of functions that are called by their plain name, with the line."""

    @property
    def room(self) -> str:
        """Return the folder, or file, on the top level that it belongs to."""
        return self.path.partition("/")[0].removesuffix(".py")

    def imported(self) -> Iterator[str]:
        """Yield the full names of the modules that it imports."""
        for node in self.imports:
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif node.module:
                yield node.module


@cache
def package() -> tuple[Parsed, ...]:
    """Parse every file of the package: 1.5 s of CPU time for the first caller."""
    gc.disable()  # a million nodes that stay until the next line: nothing to collect
    try:
        return tuple(_parsed(path) for path in sorted(PACKAGE.rglob("*.py")))
    finally:
        gc.enable()


def _parsed(path: Path) -> Parsed:
    tree = ast.parse(path.read_text("utf-8"))
    parsed = Parsed(path.relative_to(PACKAGE).as_posix(), ast.get_docstring(tree))
    statements = set()
    for node in ast.walk(tree):  # breadth first: a statement comes before the text that it consists of
        if isinstance(node, ast.Import | ast.ImportFrom):
            parsed.imports.append(node)
        elif isinstance(node, ast.Expr):
            statements.add(id(node.value))
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            (parsed.docstrings if id(node) in statements else parsed.constants).append(node)
        elif isinstance(node, ast.ClassDef):
            parsed.classes.append(node.name)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            parsed.calls.append((node.func.id, node.lineno))
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            parsed.functions.append((node.name, _statement_lines(node)))
    return parsed


def _statement_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """Lines of the statements of a function; those of functions inside are looked for only if there are many."""
    first, *others = function.body
    end = function.end_lineno or 0
    lines = end - (others[0] if others and ast.get_docstring(function, clean=False) is not None else first).lineno + 1
    return lines - sum(map(_inner_lines, ast.iter_child_nodes(function))) if lines > 40 else lines


def _inner_lines(node: ast.AST) -> int:
    """Lines of the functions in a part of a function; what is inside of these is counted with them."""
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return (node.end_lineno or 0) - node.lineno + 1
    return sum(map(_inner_lines, ast.iter_child_nodes(node)))


@cache
def imports() -> list[tuple[str, str]]:
    """Every import of one file by another, as names of modules without that of the package."""
    modules = {file.path.removesuffix(".py").replace("/", ".").removesuffix(".__init__") for file in package()}
    found = []
    for file in package():
        here = file.path.removesuffix(".py").replace("/", ".")
        for node in file.imports:
            if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("retrieve_cli"):
                inner = node.module.removeprefix("retrieve_cli").lstrip(".")
                names = [f"{inner}.{alias.name}".lstrip(".") for alias in node.names]
                found += [(here, name if name in modules else inner) for name in names]
    return [(here, there) for here, there in dict.fromkeys(found) if there and here != "__init__"]


def room(module: str) -> str:
    return module.partition(".")[0]
