"""Plain English in docstrings and messages, by a list of words that the glossary replaces."""

import re

import pytest
from package_text import package
from samples import ROOT

pytestmark = pytest.mark.usefixtures("parsed_package")

_QUESTION = re.compile(r"(What|Which|How|Whether|Where|Who|Whose|When|If|All)\b")
"""First words that make a docstring a clause instead of a name or a sentence."""
_DIALECT = re.compile(
    r"\b(?:(?:is|are|was|were|be) no(?! longer\b)|that is none|anew|afresh|mend(?:s|ed)?|left out|leave it out|legs?"
    r"|handed on|refused|refuses|see to|see what|see whether|told|it lacks|stands in|names none|one a line"
    r"|(?:check|mend) (?:the path and )?(?:its|the) rights|where there (?:is|are)|as it stands|by itself)\b"
)
"""Words and phrases for which the glossary has plain ones."""
_CLAUSES = {
    "what it …": r"\b[Ww]hat (?:it|they|is|are|was|were|has|have)\b",
    "that of": r"\b(?:[Tt]hat|[Tt]hose) of\b",
    "is none, no such": r"\b(?:is|are|was|were) none\b|\b[Nn]o such\b",
    "say": r"\b(?:[Ss]ays?|[Ss]aid|[Ss]aying)\b",
    "of its own": r"\bof (?:its|their|your|our) own\b",
    "stands": r"\bstands?\b|\bstood\b",
    "nobody": r"\b(?:[Nn]obody|[Ss]omebody)\b",
    "as it is": r"(?<!soon )\bas (?:it|they) (?:is|are|was|were)\b",
    "whatever": r"\b(?:[Ww]hichever|[Ww]hoever|[Ww]hatever|[Ww]hosever)\b",
    "besides": r"\b[Bb]esides\b",
}
"""Ten turns of phrase that a native reader has to read twice, in docstrings, messages and docs."""
_PLAIN = re.compile(
    r"there (?:is|are|was|were) no\b"  # plain English: "there is no index"
    r"|Connection refused"
)


def dialect(text: str) -> list[str]:
    """Return the phrases of a text that the glossary replaces."""
    return _DIALECT.findall(_PLAIN.sub(" ", text))


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    questions = [
        f"{file.path}:{constant.lineno}: {constant.value[:60]}"
        for file in package()
        for constant in file.docstrings
        if _QUESTION.match(constant.value)
    ]
    assert questions == []


def test_messages_use_the_words_of_the_glossary() -> None:
    found = [
        f"{file.path}:{constant.lineno}: {constant.value[:80]}"
        for file in package()
        for constant in file.constants
        if " " in constant.value and dialect(constant.value)
    ]
    assert found == []


PROMPTS = ("assemble/chunkers.py", "models/remote/prompts.py")
"""Prompts of chat models: other words would be another index, or other choices of a model."""


@pytest.mark.parametrize("clause", _CLAUSES)
def test_sentences_are_plain(clause: str) -> None:
    pattern = re.compile(_CLAUSES[clause])
    texts = [
        (f"{file.path}:{text.lineno}", text.value)
        for file in package()
        if file.path not in PROMPTS
        for text in [*file.docstrings, *(constant for constant in file.constants if " " in constant.value.strip())]
    ]
    pages = [*ROOT.glob("docs/*.md"), ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    texts += [(page.name, page.read_text("utf-8")) for page in pages]
    assert [(place, found[0]) for place, text in texts if (found := pattern.search(text))] == []
