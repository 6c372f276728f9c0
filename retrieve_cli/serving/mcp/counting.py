"""The tokenizer of budgets: that of `--max-tokens`, or an estimate on the safe side where the index has none."""

from __future__ import annotations

from retrieve_cli.api.index import Index
from retrieve_cli.assemble.tokenizers import counter
from retrieve_cli.errors import STEP_FAILURES
from retrieve_cli.output.compact import Count
from retrieve_cli.search import results

_ESTIMATE = "pieces"
_WORDS = "words"


def counter_of(index: Index) -> Count:
    """Return the counter of an index: by `budget.tokenizer` if it is set, else by its encoder's tokenizer.

    Words are no measure of what a model is sent: if nothing better is at hand, the pieces of words are estimated.
    """
    opened = index.opened
    try:
        found = results.counter_of(opened)
    except STEP_FAILURES:
        found = None
    if found is not None and (found.name != _WORDS or str(opened.settings.budget.tokenizer) == _WORDS):
        return found.tokenizer.count
    return counter(_ESTIMATE, lambda: opened.models.encoder).tokenizer.count
