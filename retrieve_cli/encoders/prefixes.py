"""What models want in front of queries and passages, by the name of their family, as their model cards say.

What a model's own files say comes first; a server's model has only its name. Sources: the model cards of
Qwen/Qwen3-Embedding-8B, BAAI/bge-large-en-v1.5, BAAI/bge-large-zh-v1.5, BAAI/bge-m3, intfloat/e5-large-v2 and
intfloat/multilingual-e5-large-instruct on huggingface.co.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from retrieve_cli.contracts import Json

FILE = "config_sentence_transformers.json"
"""Where a sentence-transformers model keeps its prompts."""
_INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_LONGEST = 200
"""Characters of a name that are looked at."""


class Prefixes(NamedTuple):
    """Texts in front of queries and passages, and who says so; nobody if that is empty."""

    query: str = ""
    passage: str = ""
    said_by: str = ""


def _family(name: str, pattern: str, query: str, passage: str = "") -> tuple[re.Pattern[str], Prefixes]:
    return re.compile(rf"(?:{pattern})(?![a-z0-9])"), Prefixes(query, passage, f"the model family {name}")


_FAMILIES = (
    _family("Qwen3-Embedding", r"(?:text-embedding-)?qwen3-embedding", _INSTRUCTION),
    _family(
        "BGE", r"bge-(?:small|base|large)-en(?:-v1\.5)?", "Represent this sentence for searching relevant passages: "
    ),
    _family("BGE", r"bge-(?:small|base|large)-zh(?:-v1\.5)?", "为这个句子生成表示以用于检索相关文章："),
    _family("BGE-M3", "bge-m3", ""),
    _family("E5", "(?:multilingual-e5-large|e5-mistral-7b)-instruct", f"{_INSTRUCTION} "),
    _family("E5", "(?:multilingual-)?e5-(?:small|base|large)(?:-v2)?", "query: ", "passage: "),
)
"""The first one that a name begins with holds."""


def by_name(*names: str) -> Prefixes:
    """Return what the first of some names that belongs to a known family is known to want."""
    for name in names:
        own = name[:_LONGEST].lower().replace("--", "/").rpartition("/")[2]
        for pattern, prefixes in _FAMILIES:
            if pattern.match(own):
                return prefixes
    return Prefixes()


def of_model(prompts: Json, name: str) -> Prefixes:
    """Return the prefixes that a model's own files name (`prompts`), or those of its family if they name none."""
    named = prompts if isinstance(prompts, Mapping) else {}
    texts = {key: text for key, text in named.items() if isinstance(text, str) and text}
    query = texts.get("query", "")
    passage = next((texts[key] for key in ("document", "passage", "corpus") if key in texts), "")
    return Prefixes(query, passage, FILE) if query or passage else by_name(name)
