"""Sparse encoder of learned term weights, at build and at query time."""

from __future__ import annotations

from retrieve_cli.assemble import registry
from retrieve_cli.assemble.encoders import cache_dir
from retrieve_cli.config.settings import Settings
from retrieve_cli.contracts import Card, SparseEncoder
from retrieve_cli.errors import Unavailable
from retrieve_cli.retrieval.retrievers.retriever import TERMS
from retrieve_cli.storage.recipe import Recipe, reading_cards


def encoder_to_build(settings: Settings) -> SparseEncoder | None:
    """Return the configured encoder; None if none is configured.

    Raises:
        Unavailable: its model is not on this machine.
        UsageError: the folder is not a SPLADE model.
    """
    return _encoder(settings, settings.splade.model) if settings.splade.model else None


def encoder_to_query(settings: Settings, recipe: Recipe) -> SparseEncoder:
    """Return the encoder that an index was built with, by its card in the recipe.

    Raises:
        Unavailable: it is not on this machine, or another revision is in its place.
    """
    with reading_cards():
        (card,) = term_cards(recipe).values()
        name, revision = str(card["name"]), card["revision"]
    for model in dict.fromkeys(filter(None, (settings.splade.model, name))):
        encoder = _encoder(settings, model)
        if encoder.card["revision"] == revision:
            return encoder
    hint = "build again: retrieve build; or restore that model"
    raise Unavailable(f"the index was built with another revision of {name}", hint=hint)


def term_cards(recipe: Recipe) -> dict[str, Card]:
    """Return the cards of the retrievers that take term weights: one, if the index has any."""
    names = (retriever.name for retriever in registry.loadable(recipe.retrievers) if retriever.form is TERMS)
    return {name: recipe.retrievers[name] for name in names}


def _encoder(settings: Settings, model: str) -> SparseEncoder:
    from retrieve_cli.models.encoders.splade_encoder import SpladeEncoder
    from retrieve_cli.models.encoders.splade_folder import read_splade
    from retrieve_cli.models.runtimes.locate import locate

    settings.expect_trusted(*registry.asked_with_terms(), "models")
    chosen = settings.splade
    place = locate(model, settings.models.dir, download=settings.models.auto_download)
    return SpladeEncoder(
        read_splade(place.path, name=place.name),
        cache_dir=cache_dir(settings),
        device=chosen.device,
        batch_size=chosen.batch_size,
        min_weight=chosen.min_weight,
        top_terms=chosen.top_terms,
        query_top_terms=chosen.query_top_terms,
    )
