"""Clean-up after a publication: old generations, files of the inbox and the cache of unfinished work are removed."""

from __future__ import annotations

from retrieve_cli.errors import RetrieveError
from retrieve_cli.ingest.report import Progress
from retrieve_cli.storage import entries
from retrieve_cli.storage.inbox import Inbox, name_of, sequence_of
from retrieve_cli.storage.store import Store


def tidy(store: Store, keep: int, progress: Progress) -> None:
    """Remove generations beyond the last `keep`, and the cache of what these have now; a failure is only reported."""
    try:
        for old in store.prune(keep):
            progress.say(f"removed generation {old}: the last {keep} are kept (store.keep)")
        entries.clear(store.cache)
        manifests = [kept.manifest for kept in store.kept()]
        numbers = (sequence_of(manifest) for manifest in manifests if name_of(manifest) is not None)
        Inbox(store.path).tidy(min(numbers, default=None))
    except (OSError, RetrieveError) as error:
        progress.say(f"old generations could not be removed: {error}")
