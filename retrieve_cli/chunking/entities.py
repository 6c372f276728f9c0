"""Names in a text (genes, people, places, products), as an installed spaCy pipeline finds them."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.chunking.spacy_import import masked, spacy
from retrieve_cli.contracts import Json
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.storage.manifest import sha1, sha1_file
from retrieve_cli.untrusted import files

if TYPE_CHECKING:
    from spacy.language import Language

_LONGEST = 100
"""Characters of a name."""
_NUMBERS = frozenset({"CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY", "DATE", "TIME"})
"""Labels, as OntoNotes calls them, of what is not the name of anything."""
_UNUSED = frozenset({"tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "morphologizer"})
"""Components that a named-entity recogniser does without, and that take most of the time."""
_INSTALL = "python -m spacy download {name}, or name another pipeline or its folder: chunking.entities_model"
_NETWORKS = re.compile(r"torch|transformer", re.IGNORECASE)


class Entities:
    """Finds names by one pipeline; making it reads its files, its weights load at the first text.

    Raises:
        Unavailable: the pipeline is not on this machine.
    """

    def __init__(self, model: str | None, language: str) -> None:
        """`model` is the name of an installed pipeline or a folder; None: the first installed one of the language."""
        self._name = model if model is not None else _installed(language)
        self._folder = _folder_of(self._name)
        if _NETWORKS.search(files.read_text(_config_of(self._folder), limit=files.CONFIG)):
            # Sentence rules import spaCy as if there was no PyTorch, unless it is here before they do.
            with suppress(ImportError):
                import torch  # noqa: F401

    @cached_property
    def card(self) -> Mapping[str, Json]:
        """Parameters that decide which names are found; part of the recipe."""
        paths = sorted(path for path in self._folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        digest = sha1({path.relative_to(self._folder).as_posix(): sha1_file(path) for path in paths})
        return {"pipeline": Path(self._name).name, "sha1": digest}

    def names(self, texts: Sequence[str], *, most: int) -> list[str]:
        """The names in the texts, those that occur most often first, no two alike but for case; at most `most`."""
        counts: Counter[str] = Counter()
        spelling: dict[str, str] = {}
        read = (masked(text[: self._pipeline.max_length]) for text in texts)
        for text, found in zip(texts, self._pipeline.pipe(read), strict=True):
            for entity in found.ents:
                name = " ".join(text[entity.start_char : entity.end_char].split())
                if entity.label_ not in _NUMBERS and len(name) <= _LONGEST and any(map(str.isalpha, name)):
                    counts[spelling.setdefault(name.casefold(), name)] += 1
        return [name for name, _ in counts.most_common(most)]

    @cached_property
    def _pipeline(self) -> Language:
        """The pipeline, without what names do not need.

        Raises:
            Unavailable: it cannot be loaded.
            UsageError: it finds no names.
        """
        package = spacy()
        try:
            pipeline: Language = package.load(self._name)
        except Exception as error:
            raise Unavailable(
                f"the spaCy pipeline {quoted(self._name)} cannot be loaded: {quoted(error)}",
                hint="install what it needs, or name another one: chunking.entities_model",
            ) from error
        assigning = [name for name in pipeline.pipe_names if "doc.ents" in pipeline.get_pipe_meta(name).assigns]
        if not assigning:
            raise UsageError(
                f"the spaCy pipeline {quoted(self._name)} finds no entities: it has {', '.join(pipeline.pipe_names)}",
                hint="name one with a component such as ner or entity_ruler: chunking.entities_model",
            )
        if all(pipeline.get_pipe_meta(name).factory == "ner" for name in assigning):
            pipeline.select_pipes(disable=[name for name in pipeline.pipe_names if name in _UNUSED])
        return pipeline


def _installed(language: str) -> str:
    """The name of the first installed pipeline of a language. Raises: Unavailable."""
    found = sorted(each.name for each in importlib.metadata.entry_points(group="spacy_models"))
    name = next((name for name in found if name.startswith(f"{language}_")), None)
    if name is None:
        example = f"{language}_core_{'web' if language in ('en', 'zh') else 'news'}_sm"
        raise Unavailable(
            f"chunking.entities needs a spaCy pipeline of the language `{language}`, and none is installed",
            hint=_INSTALL.format(name=example),
        )
    return name


def _folder_of(name: str) -> Path:
    """The folder of a pipeline, by its path or as an installed package. Raises: Unavailable."""
    folder = Path(name)
    if not folder.is_dir():
        try:
            spec = importlib.util.find_spec(name) if name.isidentifier() else None
        except (ImportError, ValueError):
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise Unavailable(
                f"the spaCy pipeline {quoted(name)} of chunking.entities_model is not installed, and no folder",
                hint=_INSTALL.format(name=name if name.isidentifier() else "en_core_web_sm"),
            )
        folder = Path(spec.submodule_search_locations[0])
    _config_of(folder)
    return folder


def _config_of(folder: Path) -> Path:
    """The configuration of a pipeline, which lies below the folder of a package. Raises: Unavailable."""
    for path in (folder / "config.cfg", *sorted(folder.glob("*/config.cfg"))):
        if path.is_file():
            return path
    raise Unavailable(
        f"{folder} is not a spaCy pipeline: it has no config.cfg", hint="see chunking.entities_model in config.yaml"
    )
