"""What messages tell a person to set exists: every key of the configuration that the package names, in one place."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import retrieve_cli
from retrieve_cli.config.bounds import keys_of
from retrieve_cli.config.settings import Settings, section_names
from retrieve_cli.config.values import _ALSO_KNOWN_AS

PACKAGE = Path(retrieve_cli.__file__).parent
SECTIONS = {name: getattr(Settings(), name) for name in section_names()}
del SECTIONS["plugins"]  # its keys are those of each plug-in
KEYS = {
    *(f"{name}.{key.name}" for name, section in SECTIONS.items() for key in keys_of(section)),
    *_ALSO_KNOWN_AS,
}
_KEY = re.compile(rf"(?<![\w./-])(?:{'|'.join(SECTIONS)})\.[a-z][a-z0-9_]*(?![\w/(])")
_FILES = tuple("pkl faiss jsonl json yaml yml md py csv tsv html js txt log onnx sqlite".split())
_TENSORS = {"encoder.layer"}
"""Names of weights in a model's file that read like keys."""


def texts(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Every text of a file that is no docstring, with its line; of an f-string, its constant parts."""
    nodes = [tree]
    for node in nodes:  # which grows as it goes
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.lineno, node.value
        elif not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)):
            nodes += ast.iter_child_nodes(node)


def said(folder: str = ".") -> Iterator[tuple[str, str]]:
    """Every text below a folder of the package, behind its place."""
    for path in sorted((PACKAGE / folder).rglob("*.py")):
        for line, text in texts(ast.parse(path.read_text("utf-8"))):
            yield f"{path.relative_to(PACKAGE)}:{line}", text


def test_every_key_that_a_message_names_is_a_key_of_the_configuration() -> None:
    named = [(place, key) for place, text in said() for key in _KEY.findall(text) if not key.endswith(_FILES)]
    assert len(named) > 60
    assert [(place, key) for place, key in named if key not in KEYS | _TENSORS] == []
