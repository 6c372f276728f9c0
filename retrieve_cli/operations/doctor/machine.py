"""Checks of the machine: the model, a GPU, the packages."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from importlib import metadata
from pathlib import Path

from retrieve_cli.assemble import encoders, registry
from retrieve_cli.assemble.indexes import local_indexes
from retrieve_cli.assemble.llm import model_servers as configured
from retrieve_cli.assemble.registry import retriever
from retrieve_cli.config.plugins import retriever_names
from retrieve_cli.contracts import Package
from retrieve_cli.contracts.terms.languages import ENGLISH, languages as languages_by_code
from retrieve_cli.errors import IndexCorrupt, Unavailable
from retrieve_cli.frozen import Frozen, replace
from retrieve_cli.operations.doctor.subject import Check, Status, Subject
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.version import __version__

_NO_CACHE = Path(os.devnull)
"""A folder in which nothing can be created: SHA-1 of weights are then computed and not stored."""


def model(subject: Subject) -> Check:
    """Check that the encoder of the current index is here in the right revision, and the one that a sync would use."""
    # Models are only inspected: without network, GPU or writes to the model cache.
    models = replace(subject.settings.models, auto_download=False, cache_dir=_NO_CACHE)
    settings = replace(subject.settings, models=models, encoder=replace(subject.settings.encoder, device="cpu"))
    if subject.manifest is None or subject.manifest.recipe.encoder is None:
        if not settings.dense.enabled:
            return Check("model", "ok", "not needed: the index has no vectors (dense.enabled: false)")
        try:
            card = encoders.encoder_to_build(settings).card
        except Unavailable as error:
            return _missing(subject, error)
        return Check("model", "ok", f"{card.name} at revision {card.revision[:12]}, as configured")
    try:
        card = encoders.encoder_to_query(settings, subject.manifest.recipe.encoder_card).card
    except Unavailable as error:
        return _missing(subject, error)
    except IndexCorrupt as error:
        return Check("model", "fail", error.message, subject.sync() or subject.build() or subject.build_from())
    message = f"{card.name} at revision {card.revision[:12]}, the one that the index was built with"
    if not settings.dense.enabled:
        return Check("model", "ok", f"{message}; sync uses none (dense.enabled: false)")
    try:
        encoders.encoder_to_build(settings)
    except Unavailable as error:
        return Check("model", "warn", f"{message}; but sync needs another one: {error.message}", error.hint)
    return Check("model", "ok", message)


def languages(subject: Subject) -> Check | None:
    """Check that the encoder was trained for the languages of the records, as far as both are known."""
    manifest = subject.manifest
    if manifest is None or manifest.recipe.encoder is None:
        return None
    rows: Mapping[str, int] = {}
    with suppress(IndexCorrupt), open_generation(subject.store) as generation:  # the check of the index reports it
        indexes = local_indexes(generation, subject.settings)
        lexical = (name for name in indexes if registry.retriever(name).role == "lexical")
        rows = next((registry.retriever(name).languages(indexes[name]) for name in lexical), {})
    return of_languages(manifest.recipe.encoder_card.name, rows)


def of_languages(encoder: str, rows: Mapping[str, int]) -> Check | None:
    """Return the finding on an encoder, by its name, and the number of rows in each language."""
    total = sum(rows.values()) or 1
    shares = {code: rows[code] / total for code in sorted(rows, key=lambda code: (-rows[code], code))}
    if sum(share for code, share in shares.items() if code not in _UNTRANSLATED) < _FEW:
        return None
    listed = ", ".join(f"{share:.0%} {_named(code)}" for code, share in list(shares.items())[:_LISTED])
    if not _ENGLISH_ALONE.search(encoder):
        return Check("languages", "ok", f"records in {listed}")
    trained = f"{encoder} was trained on English, and the records are {listed}"
    message = f"{trained}: their vectors tell little, words still match"
    return Check("languages", "warn", message, "choose a multilingual encoder: retrieve init --preset multilingual-e5")


def _named(code: str) -> str:
    """Return the English name of a language."""
    if (known := languages_by_code().get(code)) is None:
        return code
    return next((name.title() for name in (known.stemmer, *sorted(known.names)) if len(name) > 3), code)


_FEW = 0.01
"""Share of records that are in a language by mistake, or do not matter."""
_LISTED = 4
_UNTRANSLATED = frozenset({ENGLISH, "zxx"})
_ENGLISH_ALONE = re.compile(
    r"(?:^|/)(?:all-(?:MiniLM|mpnet|distilroberta)|msmarco-|multi-qa-|bge-(?:small|base|large)-en|gte-(?:small|base|large)$"
    r"|e5-(?:small|base|large)(?:-v2)?$)",
    re.IGNORECASE,
)
"""Names of well-known encoders of English."""


def _missing(subject: Subject, error: Unavailable) -> Check:
    if encoders.fetches(subject.settings):
        message = f"{error.message} It is downloaded at first use (models.auto_download)."
        return Check("model", "warn", message, error.hint)
    return Check("model", "fail", error.message, error.hint)


def model_servers(subject: Subject) -> Check | None:
    """Report the configured model servers, and check that their API keys are set; no server is contacted."""
    if not (servers := configured(subject.settings)):
        return None
    message = "; ".join(f"{server.stage}: {server.model} at {server.address}" for server in servers)
    lacking = list(dict.fromkeys(str(server.api_key_env) for server in servers if server.lacks_key))
    if not lacking:
        return Check("servers", "ok", message)
    return Check("servers", "warn", f"{message}; not set: {', '.join(lacking)}", f"export {lacking[0]}=...")


def gpu(subject: Subject) -> Check:
    """Check that a GPU would encode passages, or that the processor has the configured precision."""
    if not subject.settings.dense.enabled:
        return Check("gpu", "ok", "not needed: nothing is encoded (dense.enabled: false)")
    try:
        status: Status = "warn" if encoders.slow_precision(subject.settings) else "ok"
        fix = "set `encoder.precision: float32` and build the index again" if status == "warn" else ""
        return Check("gpu", status, encoders.device(subject.settings), fix)
    except Unavailable as error:
        return Check("gpu", "fail", error.message, error.hint)


class _Package(Frozen):
    """A distribution under any of its names, its purpose, and a test of whether this configuration needs it."""

    names: tuple[str, ...]
    purpose: str
    needed: Callable[[Subject], bool]

    @property
    def installed(self) -> str:
        """Return name and version; empty if it is not installed."""
        for name in self.names:
            try:
                return f"{name} {metadata.version(name)}"
            except metadata.PackageNotFoundError:
                continue
        return ""


def packages(subject: Subject) -> Check:
    """Check that the needed distributions are installed, and list the others."""
    installed = [version for package in _PACKAGES if (version := package.installed)]
    absent = [package for package in _PACKAGES if not package.installed]
    missing = [package for package in absent if package.needed(subject)]
    if missing:
        message = "; ".join(f"{package.names[0]} is not installed, needed for {package.purpose}" for package in missing)
        return Check("packages", "fail", message, "pip install " + " ".join(package.names[0] for package in missing))
    message = f"retrieve {__version__}, Python {platform.python_version()}, {', '.join(installed)}"
    for package in absent:
        message += f"; {package.names[0]} is not installed, needed for {package.purpose}"
    return Check("packages", "ok", message)


def _onnx(subject: Subject) -> bool:
    return subject.settings.dense.enabled and subject.settings.encoder.kind in ("auto", "onnx", "openvino")


def _torch(subject: Subject) -> bool:
    chosen = subject.settings.encoder
    on_torch = chosen.device == "cuda" or chosen.precision == "bfloat16"
    wanted = chosen.kind == "torch" or (chosen.kind == "auto" and on_torch)
    return subject.settings.dense.enabled and wanted


def _model_servers(subject: Subject) -> bool:
    chosen = subject.settings
    by_configuration = chosen.encoder.kind == "remote" or chosen.rerank.backend in ("remote", "llm")
    return by_configuration or chosen.llm.base_url is not None or chosen.facets.base_url is not None


def _source_kinds(subject: Subject) -> set[str]:
    return {entry.kind for entry in subject.entries}


def _needs(name: str, package: Package) -> Callable[[Subject], bool]:
    """Return a test of whether a retriever needs a package, by the configuration or by the recipe of the index."""

    def needed(subject: Subject) -> bool:
        card = subject.manifest.recipe.retrievers.get(name, {}) if subject.manifest else {}
        section = getattr(subject.settings, name, None)
        return package.value in (getattr(section, package.key, None), card.get(package.card_key or package.key))

    return needed


def _other_sentences(subject: Subject) -> bool:
    """Return True if texts in another language than English are split into sentences."""
    settings = subject.settings
    split = settings.chunking.coherence or settings.facets.extractive or "docs" in _source_kinds(subject)
    return split and settings.chunking.language != "en"


def _each(names: str, purpose: str, needed: Callable[[Subject], bool] = lambda _: False) -> Iterator[_Package]:
    """Yield distributions that serve one purpose; by default, no configuration needs them."""
    return (_Package((name,), purpose, needed) for name in names.split())


_PACKAGES = (
    *_each("typer rich PyYAML orjson numpy", "every command", lambda _: True),
    *_each("tokenizers onnx onnxruntime", "the encoder on a CPU (encoder.kind: onnx)", _onnx),
    *_each("torch transformers sentence-transformers", "the encoder on a GPU (encoder.kind: torch)", _torch),
    *_each(
        "openvino",
        "a faster encoder on a CPU (encoder.kind: openvino)",
        lambda subject: subject.settings.dense.enabled and subject.settings.encoder.kind == "openvino",
    ),
    *_each(
        "spacy",
        "names in texts (chunking.entities), and sentences in other languages than English",
        lambda subject: subject.settings.chunking.entities or _other_sentences(subject),
    ),
    *(
        _Package(package.names, f"{name}.{package.key}: {package.value}", _needs(name, package))
        for name in retriever_names()
        for package in retriever(name).packages
    ),
    *_each(
        "urllib3",
        "sources of kind http and sparql, and models on a server",
        lambda subject: bool(_source_kinds(subject) & {"http", "sparql"}) or _model_servers(subject),
    ),
    *_each("pyoxigraph", "sources of kind sparql", lambda subject: "sparql" in _source_kinds(subject)),
    *_each(
        "obonet",
        "ontologies in OBO (graph.files)",
        lambda subject: any(path.suffix == ".obo" for path in subject.settings.graph.files),
    ),
    *_each("pydicom nibabel tifffile Pillow pynrrd", "query --file"),
    *_each("pypdfium2", "documents in PDF"),
    *_each("selectolax trafilatura", "documents in HTML"),
    *_each("ir-measures scipy", "retrieve eval"),
    *_each("huggingface_hub", "models.auto_download", lambda subject: subject.settings.models.auto_download),
)
