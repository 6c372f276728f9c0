"""Named entities in a text (genes, people, places, products), recognised by an installed spaCy pipeline."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.contracts import Chunk, Json, Record
from retrieve_cli.errors import Unavailable, UsageError, quoted
from retrieve_cli.frozen import replace
from retrieve_cli.storage.manifest import sha1, sha1_file

if TYPE_CHECKING:
    from spacy.language import Language

_LONGEST = 100
"""Maximum characters of a name."""
_NUMBERS = frozenset({"CARDINAL", "ORDINAL", "QUANTITY", "PERCENT", "MONEY", "DATE", "TIME"})
"""OntoNotes labels of entities that are not names."""
_UNUSED = frozenset({"tagger", "parser", "senter", "attribute_ruler", "lemmatizer", "morphologizer"})
"""Components that named-entity recognition does not need, and that take most of the time."""
_INSTALL = "python -m spacy download {name}, or name another pipeline or its folder: chunking.entities_model"


class EntityFinder:
    """Name finder with one pipeline. The constructor reads its files; its weights load at the first text.

    Raises:
        Unavailable: the pipeline is not on this machine.
    """

    def __init__(self, model: str | None) -> None:
        """`model` is an installed pipeline or a folder; None takes the first installed pipeline, an English one if
        there is one."""
        self._name = model if model is not None else _installed()
        self._folder = _folder_of(self._name)

    @cached_property
    def card(self) -> Mapping[str, Json]:
        """Parameters that decide which names are recognised; part of the recipe."""
        paths = sorted(path for path in self._folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
        digest = sha1({path.relative_to(self._folder).as_posix(): sha1_file(path) for path in paths})
        return {"pipeline": Path(self._name).name, "sha1": digest}

    def names(self, texts: Sequence[str], *, most: int) -> list[str]:
        """Return up to `most` names in the texts, most frequent first, without duplicates that differ only in case."""
        counts: Counter[str] = Counter()
        spelling: dict[str, str] = {}
        masked_texts = (_mask_runs(text[: self._pipeline.max_length]) for text in texts)
        for text, doc in zip(texts, self._pipeline.pipe(masked_texts), strict=True):
            for entity in doc.ents:
                name = " ".join(text[entity.start_char : entity.end_char].split())
                if entity.label_ not in _NUMBERS and len(name) <= _LONGEST and any(map(str.isalpha, name)):
                    counts[spelling.setdefault(name.casefold(), name)] += 1
        return [name for name, _ in counts.most_common(most)]

    def annotate(self, record: Record, chunks: Sequence[Chunk], *, key: str, most: int) -> Record:
        """Return the record with the names in its chunks added to its metadata under `key`, up to `most` in all.

        Names that the record lists itself come first. A record with another kind of value there stays unchanged.
        """
        listed = record.metadata.get(key, [])
        listed = [listed] if isinstance(listed, str) else listed
        if not isinstance(listed, list) or not all(isinstance(name, str) for name in listed):
            return record
        folded = {name.casefold() for name in listed}
        names = self.names([chunk.text for chunk in chunks], most=most)
        added = [name for name in names if name.casefold() not in folded][: max(0, most - len(listed))]
        kept = [*listed, *added]
        return replace(record, metadata={**record.metadata, key: kept}) if kept else record

    @cached_property
    def _pipeline(self) -> Language:
        """Load the pipeline, without components that names do not need.

        Raises:
            Unavailable: it cannot be loaded.
            UsageError: it does not recognise names.
        """
        try:
            import spacy
        except ImportError as error:
            message = "spaCy, which finds names, is not installed"
            raise Unavailable(message, hint="pip install 'retrieve-cli[spacy]'") from error
        try:
            pipeline: Language = spacy.load(self._name)
        except Exception as error:
            raise Unavailable(
                f"the spaCy pipeline {quoted(self._name)} cannot be loaded: {quoted(error)}",
                hint="install its requirements, or name another pipeline: chunking.entities_model",
            ) from error
        assigning = [name for name in pipeline.pipe_names if "doc.ents" in pipeline.get_pipe_meta(name).assigns]
        if not assigning:
            raise UsageError(
                f"the spaCy pipeline {quoted(self._name)} finds no entities: it has {', '.join(pipeline.pipe_names)}",
                hint="name a pipeline with a component such as ner or entity_ruler: chunking.entities_model",
            )
        if all(pipeline.get_pipe_meta(name).factory == "ner" for name in assigning):
            pipeline.select_pipes(disable=[name for name in pipeline.pipe_names if name in _UNUSED])
        return pipeline


def _installed() -> str:
    """Return the name of the first installed pipeline, English ones first. Raises: Unavailable."""
    pipelines = {entry.name for entry in importlib.metadata.entry_points(group="spacy_models")}
    if not pipelines:
        raise Unavailable(
            "chunking.entities needs a spaCy pipeline, and none is installed",
            hint=_INSTALL.format(name="en_core_web_sm"),
        )
    return min(pipelines, key=lambda name: (not name.startswith("en_"), name))


def _folder_of(name: str) -> Path:
    """Return the folder of a pipeline, by its path or as an installed package. Raises: Unavailable."""
    folder = Path(name)
    if not folder.is_dir():
        try:
            spec = importlib.util.find_spec(name) if name.isidentifier() else None
        except (ImportError, ValueError):
            spec = None
        if spec is None or not spec.submodule_search_locations:
            raise Unavailable(
                f"chunking.entities_model is {quoted(name)}, which is neither an installed spaCy pipeline nor a folder",
                hint=_INSTALL.format(name=name if name.isidentifier() else "en_core_web_sm"),
            )
        folder = Path(spec.submodule_search_locations[0])
    _config_of(folder)
    return folder


def _config_of(folder: Path) -> Path:
    """Return the configuration file of a pipeline, in its folder or one below. Raises: Unavailable."""
    for path in (folder / "config.cfg", *sorted(folder.glob("*/config.cfg"))):
        if path.is_file():
            return path
    raise Unavailable(
        f"{folder} is not a spaCy pipeline: it has no config.cfg", hint="see chunking.entities_model in config.yaml"
    )


_UNBROKEN = re.compile(r"\S{300,}")
_NO_STOP = re.compile(r"[^.!?\u3002\uff01\uff1f]|[.!?\u3002\uff01\uff1f]{2,}")


def _mask_runs(text: str) -> str:
    """Replace long runs of marks, which take quadratic time to split, by letters; every character keeps its
    position."""
    return _UNBROKEN.sub(lambda run: _NO_STOP.sub(lambda marks: "x" * len(marks[0]), run[0]), text)
