"""Plain English in docstrings and messages, by a list of words that the glossary replaces."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import retrieve_cli

PACKAGE = Path(retrieve_cli.__file__).parent
_QUESTION = re.compile(r"(What|Which|How|Whether|Where|Who|Whose|When|If|All)\b")
"""First words that make a docstring a clause instead of a name or a sentence."""
_DIALECT = re.compile(
    r"\b(?:(?:is|are|was|were|be) no(?! longer\b)|that is none|anew|afresh|mend(?:s|ed)?|left out|leave it out|legs?"
    r"|handed on|refused|refuses|see to|see what|see whether|told|it lacks|stands in|names none|one a line"
    r"|(?:check|mend) (?:the path and )?(?:its|the) rights|where there (?:is|are)|as it stands|by itself)\b"
)
"""Words and phrases for which the glossary has plain ones."""
_PLAIN = re.compile(
    r"there (?:is|are|was|were) no\b"  # plain English: "there is no index"
    r"|Connection refused"
)


def trees() -> Iterator[tuple[str, ast.Module]]:
    """Yield every file of the package, by its path within it."""
    for path in sorted(PACKAGE.rglob("*.py")):
        yield path.relative_to(PACKAGE).as_posix(), ast.parse(path.read_text("utf-8"))


def docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """Docstrings of modules, classes, functions and attributes: each text that is a statement."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


def literals(tree: ast.Module) -> Iterator[ast.Constant]:
    """Texts that are not docstrings; of an f-string, its constant parts."""
    documentation = {id(constant) for constant in docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in documentation:
            yield node


def dialect(text: str) -> list[str]:
    """Return the phrases of a text that the glossary replaces."""
    return _DIALECT.findall(_PLAIN.sub(" ", text))


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    questions = [
        f"{file}:{constant.lineno}: {constant.value[:60]}"
        for file, tree in trees()
        for constant in docstrings(tree)
        if _QUESTION.match(constant.value)
    ]
    assert questions == []


def test_messages_use_the_words_of_the_glossary() -> None:
    found = [
        f"{file}:{constant.lineno}: {constant.value[:80]}"
        for file, tree in trees()
        for constant in literals(tree)
        if " " in constant.value and dialect(constant.value)
    ]
    assert found == []


@pytest.mark.parametrize(
    "message",
    [
        "`sources` is no list of sources",
        "make room, or mend the rights",
        "the splade leg is left out",
        "3 records were refused",
        "build it anew",
        "the best hits are handed on",
    ],
)
def test_a_phrase_of_the_glossary_is_recognised(message: str) -> None:
    assert dialect(message)


def test_plain_sentences_pass() -> None:
    assert not dialect("there is no index in artifacts yet; it is not a folder, and the model is no longer current")
