"""Keys of the configuration that differ from what an index was built with: the next sync applies them.

What a build makes of a key is in the recipe of the index, on the card of the part that the key sets. Keys that leave
the value to the program (`auto`, null) are not compared: the card has the value that was chosen. Nothing is loaded
that a comparison of the given keys does not need.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from retrieve_cli.assemble import registry
from retrieve_cli.config.settings import STRATEGIES, ChunkingRule, Settings, sections
from retrieve_cli.contracts import Card, Json
from retrieve_cli.errors import RetrieveError, shortened
from retrieve_cli.storage.recipe import Recipe, reading_cards

if TYPE_CHECKING:
    from retrieve_cli.storage.records.columns import Columns

_TRANSFORMERS = ("auto", "onnx", "openvino", "torch")
"""Values of `encoder.kind` that run a model of the family `transformer`."""
_KINDS = (*_TRANSFORMERS, "hashed", "remote")
_NAMED = 3
"""Keys that a sentence names."""


class Unapplied(NamedTuple):
    """A key, its value in the configuration, and what the index was built with."""

    key: str
    configured: Json
    indexed: Json

    def sentence(self, where: str) -> str:
        """Return both values as a sentence; `where` names the place that sets the key: `in config.yaml`, `by
        default`."""
        if isinstance(self.configured, Mapping | list | tuple):
            return f"{self.key} {where} differs from the index"
        indexed = "not" if self.indexed is None else _shown(self.indexed)
        return f"{self.key} is {_shown(self.configured)} {where} and {indexed} in the index"

    def __str__(self) -> str:
        """The key and both values: `chunking.size (400, 256 in the index)`."""
        if isinstance(self.configured, Mapping | list | tuple):
            return self.key
        indexed = "none" if self.indexed is None else _shown(self.indexed)
        return f"{self.key} ({_shown(self.configured)}, {indexed} in the index)"


def summary(differing: Sequence[Unapplied], given: Mapping[str, str]) -> str:
    """Return the first keys that differ as one sentence; `given` maps each key to the place that sets it."""
    places = dict.fromkeys(f"in {given[one.key]}" if one.key in given else "by default" for one in differing)
    place = next(iter(places))
    if len(differing) == 1:
        return differing[0].sentence(place)
    where = place.removeprefix("in ") if len(places) == 1 and place != "by default" else "the configuration"
    more = f" and {len(differing) - _NAMED} more" if len(differing) > _NAMED else ""
    return f"{where} differs from the index in {', '.join(map(str, differing[:_NAMED]))}{more}"


def _shown(value: Json) -> str:
    """A value as the configuration writes it."""
    if value is None:
        return "not set"
    return str(value).lower() if isinstance(value, bool) else shortened(str(value))


class _Compared(NamedTuple):
    settings: Settings
    recipe: Recipe
    columns: Callable[[], Columns]


def unapplied(
    settings: Settings, recipe: Recipe, *, columns: Callable[[], Columns], keys: Collection[str] | None = None
) -> list[Unapplied]:
    """Return the keys that a sync would apply, of those given (`section.key`; None: all), in order of sections.

    `columns` opens the columns of the index, for keys whose effect depends on the records.

    Raises:
        IndexCorrupt: a card of the recipe is damaged.
    """
    compared = _Compared(settings, recipe, columns)
    asked = sections("index") if keys is None else {key.partition(".")[0] for key in keys}
    differing: list[Unapplied] = []
    with reading_cards():
        comparisons = {
            **_COMPARISONS,
            **dict.fromkeys(registry.asked_with_vectors(), _vectors),
            **dict.fromkeys(registry.asked_with_terms(), _term_weights),
        }
        for section in dict.fromkeys([*comparisons, *recipe.retrievers]):
            if section in asked:
                differing += comparisons[section](compared) if section in comparisons else ()
                differing += _of_retriever(section, compared)
    return [one for one in differing if keys is None or one.key in keys]


def _of_retriever(name: str, compared: _Compared) -> Iterator[Unapplied]:
    """Keys of a retriever's own section that its card has."""
    card, section = compared.recipe.retrievers.get(name), getattr(compared.settings, name, None)
    if card is None or section is None:
        return
    for retriever in registry.loadable([name]):
        for key, indexed in retriever.built_with(card).items():
            configured = getattr(section, key)
            if configured not in ("auto", None, indexed):
                yield Unapplied(f"{name}.{key}", configured, indexed)


def _docs(compared: _Compared) -> Iterator[Unapplied]:
    card = compared.recipe.sources.get("docs", {})
    weight = compared.settings.docs.name_weight
    if card.get("name_weight", weight) != weight:
        yield Unapplied("docs.name_weight", weight, card["name_weight"])


def _catalog(compared: _Compared) -> Iterator[Unapplied]:
    from retrieve_cli.assemble.sources import field_map

    card = compared.recipe.sources.get("catalog", {})
    wanted = field_map(compared.settings).card
    if any(card.get(key, wanted[key]) != wanted[key] for key in ("spellings", "weights")):
        fields = compared.settings.catalog.fields
        yield Unapplied("catalog.fields", {key: [field.to, field.weight] for key, field in fields.items()}, {})


# --------------------------------------------------------------------------------------------- chunking


def _chunking(compared: _Compared) -> Iterator[Unapplied]:
    """Keys of the section, each once if several kinds of sources differ in it."""
    chosen = compared.settings.chunking
    differing: dict[str, Unapplied] = {}
    for kind, card in compared.recipe.chunking.items():
        for key, configured, indexed in _of_chunker(kind, card, compared.settings):
            if configured != indexed:
                shown = card.get("rules", []) if key == "rules" else indexed
                differing.setdefault(key, Unapplied(f"chunking.{key}", getattr(chosen, key), shown))
    yield from differing.values()


def _of_chunker(kind: str, card: Card, settings: Settings) -> Iterator[tuple[str, Json, Json]]:
    """Keys, the value that they would give this card, and the value that it has."""
    chosen = settings.chunking
    rule = ChunkingRule("", chosen.strategy, chosen.size, chosen.overlap)
    yield from _of_cut(kind, card, rule)
    if _strategy(kind, rule) in STRATEGIES and card.get("strategy") in STRATEGIES:
        yield "language", chosen.language, card.get("language")
        yield "coherence", chosen.coherence, card.get("coherence") is not None
    yield "entities", chosen.entities, "entities" in card
    yield "rules", True, _same_rules(kind, card.get("rules", []), settings)


def _of_cut(kind: str, card: Card, rule: ChunkingRule) -> Iterator[tuple[str, Json, Json]]:
    """Yield strategy, size and overlap; the card of a plug-in has other keys."""
    strategy, own = _strategy(kind, rule), card.get("strategy")
    if strategy not in STRATEGIES:
        return
    yield "strategy", strategy, own
    if own in STRATEGIES:
        yield "size", rule.size or card.get("max_tokens"), card.get("size")
    if own == strategy == "window":
        yield "overlap", rule.overlap, card.get("overlap")


def _strategy(kind: str, rule: ChunkingRule) -> str:
    """The strategy of a rule, chosen by the kind of source if that is left open."""
    if rule.strategy in (None, "auto"):
        return "section" if kind == "docs" or rule.markers else "window"
    return str(rule.strategy)


def _same_rules(kind: str, cards: Sequence[Card], settings: Settings) -> bool:
    """Return True if the rules of the configuration match the same files and cut them alike."""
    chosen = settings.chunking
    if [rule.match for rule in chosen.rules] != [card.get("match") for card in cards]:
        return False
    for rule, card in zip(chosen.rules, cards, strict=True):
        whole = ChunkingRule(
            rule.match,
            rule.strategy or ("section" if rule.markers else chosen.strategy),
            rule.size or chosen.size,
            chosen.overlap if rule.overlap is None else rule.overlap,
            rule.markers,
        )
        if any(configured != indexed for _, configured, indexed in _of_cut(kind, card, whole)):
            return False
    return True


# ---------------------------------------------------------------------------------------------- encoder


def _encoder(compared: _Compared) -> Iterator[Unapplied]:
    chosen, card = compared.settings.encoder, compared.recipe.encoder
    if card is None or not compared.settings.dense.enabled:
        return
    family = "transformer" if chosen.kind in _TRANSFORMERS else chosen.kind
    if family != card["family"]:
        if chosen.kind in _KINDS:
            indexed = f"the model {card['name']}" if card["family"] == "transformer" else str(card["family"])
            yield Unapplied("encoder.kind", chosen.kind, indexed)
        return
    set_by = {
        "hashed": {"dim": "dim"},
        "transformer": {"precision": "precision", "query_prefix": "query_prefix", "passage_prefix": "passage_prefix"},
        "remote": {"dimensions": "dim", "max_tokens": "max_tokens"},
    }
    if family == "transformer" and not _is_called(chosen.model, str(card["name"])):
        yield Unapplied("encoder.model", chosen.model, card["name"])
    for key, name in set_by.get(family, {}).items():
        if (configured := getattr(chosen, key)) not in ("auto", None, card[name]):
            yield Unapplied(f"encoder.{key}", configured, card[name])


def _is_called(model: str, name: str) -> bool:
    """Return True if a model, given by its name or folder, goes by the name that a card has."""
    from retrieve_cli.models.runtimes.locate import full_name

    return name in (full_name(model), Path(model).expanduser().resolve().name)


# ------------------------------------------------------------------------------- retrievers and the graph


def _vectors(compared: _Compared) -> Iterator[Unapplied]:
    enabled, vectors = compared.settings.dense.enabled, compared.recipe.encoder is not None
    if enabled is not vectors:
        yield Unapplied("dense.enabled", enabled, vectors)


def _term_weights(compared: _Compared) -> Iterator[Unapplied]:
    from retrieve_cli.assemble import encoders

    model = compared.settings.splade.model
    cards = encoders.term_cards(compared.recipe)
    if not cards:
        if model is not None and _can_be_built(compared.settings):
            yield Unapplied("splade.model", model, None)
        return
    name = str(next(iter(cards.values()))["name"])
    if model is None or not _is_called(model, name):
        yield Unapplied("splade.model", model, name)


def _can_be_built(settings: Settings) -> bool:
    """Return True if the model of term weights is on this machine: a sync that cannot have it leaves the index."""
    from retrieve_cli.assemble import encoders

    try:
        return encoders.sparse_encoder_to_build(settings) is not None
    except RetrieveError:
        return False


def _graph(compared: _Compared) -> Iterator[Unapplied]:
    from retrieve_cli.assemble import graph

    card = compared.recipe.graph
    if card is None:
        return
    try:
        wanted = graph.card(compared.settings)(compared.columns())
    except RetrieveError:
        return  # a file of edges is missing: a sync names it
    for key in ("relations", "entities", "files"):
        if card.get(key) != wanted[key]:
            yield Unapplied(f"graph.{key}", wanted[key], card.get(key))


def _facets(compared: _Compared) -> Iterator[Unapplied]:
    chosen, card = compared.settings.facets, compared.recipe.facets
    kind = ("extractive" if chosen.extractive else "chat") if chosen.enabled else None
    if (indexed := card["kind"] if card else None) != kind:
        key = "base_url" if "chat" in (kind, indexed) and not chosen.extractive else "prompt"
        yield Unapplied(f"facets.{key}", getattr(chosen, key), indexed)
    elif kind == "chat" and card:
        from retrieve_cli.assemble.chunkers import task

        for key in ("model", "max_tokens"):
            if (configured := getattr(chosen, key)) != card[key]:
                yield Unapplied(f"facets.{key}", configured, card[key])
        if task(chosen.prompt).digest != card["prompt"]:
            yield Unapplied("facets.prompt", chosen.prompt, "another one")
    weights = [own.get("facets", 0.0) for own in compared.recipe.retrievers.values() if "analyzer" in own]
    if kind and weights and weights[0] != chosen.weight:
        yield Unapplied("facets.weight", chosen.weight, weights[0])


_COMPARISONS: Mapping[str, Callable[[_Compared], Iterator[Unapplied]]] = {
    "catalog": _catalog,
    "docs": _docs,
    "chunking": _chunking,
    "encoder": _encoder,
    "facets": _facets,
    "graph": _graph,
}
"""By section of the configuration; sections of retrievers without an entry are compared by their cards alone."""
