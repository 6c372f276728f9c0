"""Clean-up after a publication: old generations and cache entries are removed, line starts noted."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from retrieve_cli.assemble import encoders
from retrieve_cli.assemble.sources import remember_lines
from retrieve_cli.errors import RetrieveError
from retrieve_cli.ingest import facets
from retrieve_cli.ingest.embedding import TERM_LAYOUT
from retrieve_cli.ingest.report import Progress
from retrieve_cli.storage import content_cache, vector_cache
from retrieve_cli.storage.generation import open_generation
from retrieve_cli.storage.inbox import Inbox, name_of, sequence_of
from retrieve_cli.storage.key_rows import as_keys
from retrieve_cli.storage.recipe import Recipe, of_passages
from retrieve_cli.storage.store import Store

if TYPE_CHECKING:
    from retrieve_cli.storage.key_rows import Keys


def tidy(store: Store, keep: int, progress: Progress) -> None:
    """Remove generations beyond the last `keep` and cache entries that none of the others needs, and note where the
    lines of the current sources start; a failure is only reported."""
    remove_old(store, keep, progress)
    note_lines(store, progress)


def remove_old(store: Store, keep: int, progress: Progress) -> None:
    """Remove generations beyond the last `keep` and cache entries that none of the others needs; a failure is only
    reported. Sources are not read: they need not be on this machine.
    """
    try:
        for old in store.prune(keep):
            progress.say(f"removed generation {old}: the last {keep} are kept (store.keep)")
        needed = []
        for kept in store.kept():
            with suppress(RetrieveError), open_generation(store, kept.manifest.id) as generation:
                needed.append((kept.manifest.recipe, as_keys(generation.texts)))
        _prune_caches(store.cache, needed, progress)
        tidy_inbox(store)
    except (OSError, RetrieveError) as error:
        progress.say(f"old generations could not be removed: {error}")


def tidy_inbox(store: Store) -> None:
    """Remove files of the inbox that are not needed any more. Raises: OSError, RetrieveError."""
    manifests = [kept.manifest for kept in store.kept()]
    numbers = (sequence_of(manifest) for manifest in manifests if name_of(manifest) is not None)
    Inbox(store.path).tidy(min(numbers, default=None))


def tidy_unchanged(store: Store, progress: Progress) -> None:
    """Do the part of `tidy` that an unchanged index may need; a failure is only reported."""
    note_lines(store, progress)
    try:
        tidy_inbox(store)
    except (OSError, RetrieveError) as error:
        progress.say(f"files of the inbox could not be removed: {error}")


def note_lines(store: Store, progress: Progress) -> None:
    """Note where the lines of the current generation's catalogs start; a failure is only reported."""
    try:
        for generation in store.kept():
            if generation.live:
                remember_lines(generation.manifest, fetched=store.fetched, cache=store.cache)
    except OSError as error:
        progress.say(f"the line starts of the catalogs could not be noted: {error}")


def _prune_caches(folder: Path, needed: Sequence[tuple[Recipe, Keys]], progress: Progress) -> None:
    with_vectors = [(of_passages(recipe.encoder), keys) for recipe, keys in needed if recipe.encoder is not None]
    content_cache.prune(folder, vector_cache.LAYOUT, with_vectors, say=progress.say)
    packed = [(recipe.encoder, keys) for recipe, keys in needed if recipe.encoder and recipe.tokens]
    with_tokens = [(vector_cache.token_card(encoder), keys) for encoder, keys in packed]
    content_cache.prune(folder, vector_cache.TOKEN_LAYOUT, with_tokens, say=progress.say)
    with_terms = [(card, keys) for recipe, keys in needed for card in encoders.term_cards(recipe).values()]
    content_cache.prune(folder, TERM_LAYOUT, with_terms, say=progress.say)
    with_facets = [(recipe.facets, keys) for recipe, keys in needed if recipe.facets is not None]
    content_cache.prune(folder, facets.LAYOUT, with_facets, say=progress.say)
