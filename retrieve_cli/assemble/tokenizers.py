"""Tokenizers for counting, by their names in the configuration."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

from retrieve_cli.contracts import Encoder, Tokenizer
from retrieve_cli.errors import STEP_FAILURES, Unavailable
from retrieve_cli.frozen import Frozen
from retrieve_cli.models.runtimes.tokenizer import ModelTokenizer


class Counter(Frozen):
    """A tokenizer with its name in the output."""

    name: str
    tokenizer: Tokenizer


def counter(named: str, encoder: Callable[[], Encoder]) -> Counter:
    """Return the tokenizer of a name: `encoder` is the tokenizer of the index's encoder; `words` (runs of letters and
    digits) or `pieces` (an estimate on the safe side), which need no model; else the path of a tokenizer.json or of its
    folder. An encoder without its own tokenizer counts by one of the two rules, and has the name of that rule.

    Raises:
        Unavailable: the file does not exist, or the encoder is not on this machine.
        UsageError: the file is not a tokenizer.
    """
    from retrieve_cli.models.encoders.hashed import WordTokenizer
    from retrieve_cli.models.remote.embeddings import PieceTokenizer

    rules: dict[str, Tokenizer] = {"words": WordTokenizer(), "pieces": PieceTokenizer()}
    if named in rules:
        return Counter(named, rules[named])
    if named != "encoder":
        file = Path(named)
        file = file / "tokenizer.json" if file.is_dir() else file
        if not file.is_file():
            hint = "name a tokenizer.json, or count without one: `encoder`, `words` or `pieces`"
            raise Unavailable(f"the tokenizer {file} does not exist", hint=hint)
        state = file.stat()
        return Counter(named, _kept(file, state.st_mtime_ns, state.st_size))
    model = encoder()
    rule = next((name for name, counted in rules.items() if type(counted) is type(model.tokenizer)), None)
    return Counter(rule or model.card.name, model.tokenizer)


def most_tokens(encoder: Callable[[], Encoder] | None = None) -> Callable[[str], int]:
    """Return a function that counts the tokens of a text for a model whose tokenizer is not known: by the tokenizer of
    an encoder, or else of the default one, if it is here; or else by bytes, of which a token has at least one."""
    try:
        tokenizer = encoder().tokenizer if encoder else None
    except STEP_FAILURES:
        tokenizer = None
    known = tokenizer if isinstance(tokenizer, ModelTokenizer) else _default()
    return (lambda text: len(text.encode("utf-8", "replace"))) if known is None else known.most


def whole_words(encoder: Encoder | None) -> Callable[[str], bool]:
    """Return a function that tells if a word is whole in the vocabulary of an encoder; the vocabulary of the default
    encoder, if it is here, counts where there is no other."""
    tokenizer = None if encoder is None else encoder.tokenizer
    words = tokenizer if isinstance(tokenizer, ModelTokenizer) else _default()
    if words is None:
        return lambda _: False
    around = words.special_tokens
    return lambda word: len(words.ids([word], max_tokens=_TOKENS).ids[0]) == 1 + around


@cache
def _default() -> ModelTokenizer | None:
    """The tokenizer of the default encoder; None if it is not on this machine."""
    from retrieve_cli.models.runtimes.locate import DEFAULT_MODEL, locate

    try:
        return ModelTokenizer.read(locate(DEFAULT_MODEL).path / "tokenizer.json", lowercase=True)
    except Unavailable:
        return None


_TOKENS = 16


@lru_cache(maxsize=2)
def _kept(file: Path, *_: int) -> Tokenizer:
    """The tokenizer in a file in this state: a server asks for it with each request, and one takes a second to read."""
    return ModelTokenizer.read(file)
