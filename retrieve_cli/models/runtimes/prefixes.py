"""Prefixes of queries and passages by the name of a model's family, from the model cards.

The model's own files take precedence; a server's model has only its name. Sources: the model cards of
Qwen/Qwen3-Embedding-8B, BAAI/bge-large-en-v1.5, BAAI/bge-large-zh-v1.5, BAAI/bge-m3, intfloat/e5-large-v2 and
intfloat/multilingual-e5-large-instruct on huggingface.co.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NamedTuple

from retrieve_cli.contracts import Json

FILE = "config_sentence_transformers.json"
"""File in which a sentence-transformers model keeps its prompts."""
_INSTRUCTION = "Instruct: Given a web search query, retrieve relevant passages that answer the query\nQuery:"
_LONGEST = 200
"""Characters of a name that are looked at."""


class Prefixes(NamedTuple):
    """Texts in front of queries and passages, and their source; an empty source if they are unknown."""

    query: str = ""
    passage: str = ""
    said_by: str = ""


_BGE = "Represent this sentence for searching relevant passages: "
_BGE_ZH = "为这个句子生成表示以用于检索相关文章："
_QWEN3, _BGES, _M3, _E5 = (f"the model family {name}" for name in ("Qwen3-Embedding", "BGE", "BGE-M3", "E5"))
_FAMILIES = (
    (re.compile(r"(?:text-embedding-)?qwen3-embedding(?![a-z0-9])"), Prefixes(_INSTRUCTION, "", _QWEN3)),
    (re.compile(r"bge-(?:small|base|large)-en(?:-v1\.5)?(?![a-z0-9])"), Prefixes(_BGE, "", _BGES)),
    (re.compile(r"bge-(?:small|base|large)-zh(?:-v1\.5)?(?![a-z0-9])"), Prefixes(_BGE_ZH, "", _BGES)),
    (re.compile(r"bge-m3(?![a-z0-9])"), Prefixes("", "", _M3)),
    (
        re.compile(r"(?:multilingual-e5-large|e5-mistral-7b)-instruct(?![a-z0-9])"),
        Prefixes(f"{_INSTRUCTION} ", "", _E5),
    ),
    (
        re.compile(r"(?:multilingual-)?e5-(?:small|base|large)(?:-v2)?(?![a-z0-9])"),
        Prefixes("query: ", "passage: ", _E5),
    ),
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
    """Return the prefixes that a model's own files name (`prompts`), or the prefixes of its family if they name
    none."""
    named = prompts if isinstance(prompts, Mapping) else {}
    texts = {key: text for key, text in named.items() if isinstance(text, str) and text}
    query = texts.get("query", "")
    passage = next((texts[key] for key in ("document", "passage", "corpus") if key in texts), "")
    return Prefixes(query, passage, FILE) if query or passage else by_name(name)
