"""Text analysis: the terms that BM25 counts.

Tool names stay searchable: `3D`, `C++`, `format:DICOM` and version numbers stay whole; compounds (`scRNA-seq`,
`snake_case`, `camelCase`) are kept whole *and* split, so that both spellings of a name match. A text has other forms of
its words (`IL6` of `IL-6`, its stop words) beside its length, and a query is compared with the best form of a token, so
that the scores of plain words stay the same. Words are stemmed by the language of their record. A query is read in
every language of the index: a record is compared with the terms that the query has in the language of the record, so
that a word counts once.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, NamedTuple
from unicodedata import category

from retrieve_cli.config import plugins
from retrieve_cli.contracts import Json, Plugin
from retrieve_cli.contracts.models import Segmenter
from retrieve_cli.contracts.terms.languages import ENGLISH, LATIN, language_named, languages, of_script, script_of
from retrieve_cli.contracts.terms.words import WORD, Spans, clean, fold, is_plain, words_of
from retrieve_cli.errors import UsageError, quoted

_VERSION = 3
"""Version of the rules; part of the recipe."""
PAIRS = "pairs"
"""The segmenter that is not a plug-in."""
_JOINT = re.compile(r"[-_]")
_CAMEL = re.compile(r"(?<=[^\W\d_A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ])")
_BOUNDARY = r"""(?x)
    (?<=[^\W\d_A-ZÀ-ÖØ-Þ])(?=[A-ZÀ-ÖØ-Þ])  # list|Api
    | (?<=[A-Z])(?=[A-Z][a-z]{2})          # HTTP|Server
    | (?<=[^\W\d_])(?=\d) | (?<=\d)(?=[^\W\d_])"""
"""Between two parts of a name. Compiled when it is met first, as the next one."""
_AROUND = r"""(?x)
    (?<=[ `])--?[^\W\d_][\w-]*                          # tar -xzf
    | (?<![^\W_])[^\W_]++(?:[ ]?&[ ]?[^\W_]++)+         # AT&T
    | (?<![^\W_])[^\W\d_]\.[^\W\d_](?:(?:\.[^\W\d_])+|\.)(?![^\W_])  # U.S.A."""
"""Words with the signs around them."""
END_OF_TEXT = "\x00"
_BLANKS = "".join(char if char.isalnum() or char in "-_:.,#+\x00" else " " for char in map(chr, range(128)))
"""ASCII characters by their code, those outside of words as blanks."""
_MOST_PARTS = 8
"""Parts of a name; keys and sums have more."""
_MOST_JOINED = 6
"""Words of a query that are looked up as one: a longer one is a sentence."""
_SHORTEST_PART = 3
"""Minimum letters of each part of a split camelCase word: `ImageJ` and `NIfTI` are names, not compounds."""
_SHORTEST_CYRILLIC = 4
"""Minimum letters of a Cyrillic word that is stemmed: the stemmer of Russian would make май and маи one."""
STOP = "="
"""Before a stop word as a term: rows have it beside their length, and few queries ask for it."""
_OPERATORS = frozenset({"and", "or", "not"})
"""Stop words in capitals that are no names."""
_CERTAIN = 2
"""Stop words of a query that show its language to an index with several, if it has no English one."""


class Token(NamedTuple):
    """A token of a query that a text may have in another form."""

    terms: Sequence[str]
    """The terms that are searched for."""
    others: Sequence[Sequence[str]]
    """Terms instead of these; a text must have all of them."""
    whole: Sequence[str] = ()
    """Terms of a name as one word: a text with one is no worse than any with its parts."""


class TextAnalyzer:
    """Analyzer that splits, folds, drops stop words and stems. It is deterministic, and keeps the order of terms."""

    def __init__(
        self,
        *,
        stemming: str = "english",
        stop_words: str = "english",
        languages: Sequence[str] = (ENGLISH,),
        rules: Mapping[str, str] | None = None,
        segmenter: str = PAIRS,
    ) -> None:
        """`stemming` is `auto` (by `languages`), `none`, `english` or a code; `stop_words` is `auto`, `none` or
        `english`. `languages` are the codes of the texts' languages; `rules` are part of the card alone.
        `segmenter` is the plug-in that cuts scripts without blanks into words.

        Raises:
            UsageError: a language is unknown, or the plug-in.
            Unavailable: the plug-in cannot be loaded.
        """
        self.card: Mapping[str, Json] = {"version": _VERSION, "stemming": stemming, "stop_words": stop_words}
        if rules:
            self.card = {**self.card, "languages": dict(rules)}
        if segmenter != PAIRS:
            self.card = {**self.card, "segmenter": segmenter}
        self._segment = _segmenter(segmenter) if segmenter != PAIRS else None
        self.adapts = "auto" in (stemming, stop_words)
        self.languages = tuple(sorted(languages)) or (ENGLISH,)
        self._stemming = stemming if stemming in ("auto", "none") else known_language(stemming)
        self._stop_words = stop_words
        self._cache: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {}
        self._applied: dict[str, list[_Rules]] = {}
        """By script."""
        self._among: dict[tuple[str, ...], TextAnalyzer] = {self.languages: self}

    @classmethod
    def of_card(cls, card: Mapping[str, Json], languages: Sequence[str] = (ENGLISH,)) -> TextAnalyzer:
        """Return the analyzer of an index with texts in these languages. Raises: KeyError: the card is incomplete."""
        named = {key: card[key] for key in ("stemming", "stop_words")}
        return cls(**named, rules=card.get("languages"), segmenter=card.get("segmenter", PAIRS), languages=languages)

    def among(self, languages: tuple[str, ...]) -> TextAnalyzer:
        """Return the same analyzer for texts in these languages."""
        if (same := self._among.get(languages)) is None:
            same = self._among[languages] = TextAnalyzer.of_card(self.card, languages)
        return same

    def terms(self, text: str) -> list[str]:
        """Return the terms of a text, in order, repeats included."""
        if len(self.languages) > 1:
            return [term for _, _, terms in self.spans(text) for term in terms]
        return [term for word in self.words(text) for term in self.terms_of_word(word)]

    def singles(self, text: str) -> list[str]:
        """Return the single characters of a text that are in pairs: terms of texts for queries of one character."""
        if text.isascii() or is_plain(text):
            return []
        return [term for start, end in words_of(text, self._segment)[1] for term in self.terms_of_word(text[start:end])]

    def forms_of_row(self, text: str) -> list[str]:
        """Return the terms of a text that are not terms of its words: single characters, and words with signs."""
        return [*self.singles(text), *(form for _, _, form in self.forms_of_text(text))]

    def words(self, text: str) -> list[str]:
        """Return the words of a text, stop words included, in order."""
        if is_plain(text):
            return WORD.findall(text)
        return [text[start:end] for start, end in self._places(text)]

    def query_terms(self, query: str) -> list[str]:
        """Return the terms that a query of these languages is searched for: stop words only if they are in capitals
        among other words, or if it has no others."""
        words, terms = self.words(query), self.terms(query)
        stops = [word for word in words if not self.terms_of_word(word)]
        return terms + [STOP + word for word in searched_stop_words(stops, query, alone=not terms)]

    def forms_of_text(self, text: str) -> list[tuple[int, int, str]]:
        """Return start, end and term of words of a text that belong together or to a sign: options of commands, letters
        around &, letters with points."""
        if not _may_have_forms(text):
            return []
        places = [match.span() for match in re.finditer(_AROUND, text)]
        forms = [(start, end, re.sub("[ .]", "", text[start:end]).lower()) for start, end in places]
        return [(start, end, self.term_of_part(form) if form.isalpha() else form) for start, end, form in forms]

    def tokens(self, query: str, *, known: Callable[[str], bool]) -> list[Token]:
        """Return the tokens of a query that a text may have in other forms; `known` tells if the index has a term."""
        tokens: list[Token] = []
        words = self.words(query)
        for word in words:
            joined, *parts = _forms(clean(word))
            terms = self.terms_of_word(word)
            others = [[self.term_of_part(joined)], [*filter(None, map(self.term_of_part, parts))]]
            is_name = len(words) == 1 or "_" in word or _CAMEL.search(word)
            named = (*terms[:1], *others[0]) if is_name else ()
            if any(map(any, others)):
                tokens.append(Token(terms, list(filter(any, others)), named))
        tokens += [Token(self.terms(query[start:end]), [[form]]) for start, end, form in self.forms_of_text(query)]
        return tokens or self._joined(words, known)

    def _joined(self, words: Sequence[str], known: Callable[[str], bool]) -> list[Token]:
        """Return the stretches of a query's words that the index has as one word, the longest first."""
        tokens: list[Token] = []
        terms = [self.terms_of_word(word) for word in words]
        free = len(words) <= _MOST_JOINED
        for size in range(len(words), 1, -1) if free else ():
            for start in range(len(words) - size + 1):
                end = start + size
                if terms[start] and terms[end - 1] and known(joined := self.term_of_part("".join(words[start:end]))):
                    own = [term for each in terms[start:end] for term in each]
                    tokens.append(Token(own, [[joined]], (joined,) if size == len(words) else ()))
                    terms[start:end] = [()] * size
        return tokens

    def spans(self, text: str) -> list[tuple[int, int, tuple[str, ...]]]:
        """Return start, end and terms of each word of the text that has terms; for marking matches. In scripts that are
        cut into pairs of characters, words overlap."""
        places = self._places(text)
        dropped = self._certain_stop_words(text, places)
        found = ((start, end, text[start:end]) for start, end in places)
        terms = (
            (start, end, () if word.lower() in dropped else self.terms_of_word(word)) for start, end, word in found
        )
        return [each for each in terms if each[2]]

    def shared(self, query: str, text: str) -> Spans:
        """Return the places of the words of a text that a query is searched for."""
        places, wanted = self._places(text), {*self.query_terms(query)}
        wanted |= {term for token in self.tokens(query, known=bool) for other in token.others for term in other}
        dropped = self._certain_stop_words(text, places)
        words = [(start, end, text[start:end]) for start, end in places]
        shared = []
        for start, end, word in words:
            terms, others = self.read_word(word)
            if not wanted.isdisjoint(terms) or not wanted.isdisjoint(others):
                shared.append((start, end, word))
        content = [(start, end) for start, end, word in shared if word.lower() not in dropped]
        around = [(start, end) for start, end, form in self.forms_of_text(text) if form in wanted]
        content = content or [(start, end) for start, end, _ in shared]
        alone = [place for place in content if not any(start <= place[0] < end for start, end in around)]
        return sorted(alone + around)

    def terms_of_word(self, word: str) -> tuple[str, ...]:
        """Return the terms of one word: itself, and its parts if it is a compound; empty for a stop word."""
        return self.read_word(word)[0]

    def read_word(self, word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return the terms of a word of a text, and those beside them that do not add to the length of the text: a stop
        word, in capitals in both spellings; a compound without its joints, and the parts of a name."""
        read = self._cache.get(word)
        if read is None:
            read = self.analyzed(word)
            if len(self._cache) < _REMEMBERED and len(word) <= _LONGEST:
                self._cache[word] = read
        return read

    def analyzed(self, word: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """Return what `read_word` returns, without remembering it: a build numbers its words itself."""
        if word.isascii() and word.isdigit():
            return (word,), ()
        terms = self._terms(word if word.isascii() else clean(word))
        forms = self._other_forms(word) if terms else stop_terms(word)
        return terms, tuple(form for form in forms if form and form not in terms)

    def _other_forms(self, word: str) -> Collection[str]:
        """Return the terms of the forms of a compound or a name; none of a plain word, or of one in capitals."""
        if word.isascii() and word.isalpha() and (word[1:].islower() or word.isupper()):
            return ()
        return dict.fromkeys(map(self.term_of_part, _forms(clean(word))))

    def _terms(self, word: str) -> tuple[str, ...]:
        terms: list[str] = []
        for part in _parts(word):
            first, *others = self._rules_of(part)
            of_part = [self._term(part, first)]
            if others:  # a term that languages share counts once
                of_part = list(dict.fromkeys([*of_part, *(self._term(part, rules) for rules in others)]))
            terms += filter(None, of_part)
        return tuple(terms)

    def term_of_part(self, part: str) -> str:
        """Return the first term of a part of a word, of an analyzer for one language the only one; empty for a stop
        word."""
        return next((term for rules in self._rules_of(part) if (term := self._term(part, rules))), "")

    def _rules_of(self, part: str) -> list[_Rules]:
        script = LATIN if part.isascii() else script_of(next(filter(str.isalpha, part), "a"))
        if (applied := self._applied.get(script)) is None:
            applied = self._applied[script] = [self._rules(code) for code in self._codes(script)]
        return applied

    def _codes(self, script: str) -> list[str]:
        """Return the languages whose rules apply to a word: of the texts those with its script, and for all others the
        one that is assumed for the script."""
        if not self.adapts:
            return [ENGLISH]
        own = [code for code in self.languages if languages()[code].script in (script, "*")]
        assumed = [one.code for one in of_script(script)[:1]] if len(own) < len(self.languages) else []
        return list(dict.fromkeys([*own, *assumed])) or [ENGLISH]

    def _rules(self, code: str) -> _Rules:
        known = languages()
        stop_words = ENGLISH if self._stop_words == "english" else code
        stemming = code if self._stemming == "auto" else self._stemming
        algorithm = known[stemming].stemmer if stemming != "none" else ""
        words = frozenset[str]() if self._stop_words == "none" else known[stop_words].words
        stemmer = _stemmer(algorithm) if algorithm else None
        stem, stems = (stemmer.stemWord, stemmer.stemWords) if stemmer else (None, None)
        return _Rules(words, stop_words == ENGLISH, stem, stems, algorithm == "english")

    def _term(self, part: str, rules: _Rules) -> str:
        folded = part.lower() if part.isascii() else fold(part)
        if not folded or (folded if rules.folded else part.lower()) in rules.stop_words:
            return ""
        if rules.stem is None or not (folded.isalpha() or _is_of_letters(folded)):
            return folded
        if rules.english:
            return rules.stem(folded)
        if "\u0400" <= folded[0] < "\u0530" and len(folded) < _SHORTEST_CYRILLIC:
            return folded
        # In Latin script marks belong to endings (marché, marchée), so that they are folded afterwards.
        return fold(rules.stem(part.lower() if part[0] < "\u0250" else folded)) or folded

    def terms_of_spellings(self, words: Sequence[str]) -> Iterator[tuple[str, str]]:
        """Yield each of some words in lower case and one script, no compounds, with each of its terms, the empty text
        for a stop word; they are not remembered."""
        for rules in self._rules_of(words[0]) if words else ():
            if rules.stems is not None and all(map(str.isascii, words)):
                stemmed = zip(words, rules.stems(words), strict=True)
                yield from ((word, "" if word in rules.stop_words else term) for word, term in stemmed)
            else:
                yield from ((word, self._term(word, rules)) for word in words)

    def by_language(self, query: str) -> list[tuple[str, dict[str, str]]]:
        """Return the words of a query and their parts, each with its term in every language of the index, English
        first. The stop words of the language that the query is certainly in are skipped, and in each language those
        that `query_terms` lacks."""
        places = self._places(query)
        dropped = self._certain_stop_words(query, places)
        words = [query[start:end] for start, end in places]
        codes = sorted(self.languages, key=lambda code: (code != ENGLISH, code))
        own = {code: self.among((code,)) for code in codes}
        found = [
            (part, {code: term for code, one in own.items() if (term := one.term_of_part(part))})
            for word in words
            if word.lower() not in dropped
            for part in _parts(clean(word))
        ]
        for code, one in own.items():
            stops = [word for word in words if not one.terms_of_word(word)]
            alone = not any(code in terms for _, terms in found)
            searched = searched_stop_words(stops, query, alone=alone)
            found += [(word, {code: STOP + word}) for word in searched]
        return found

    def _places(self, text: str) -> Spans:
        plain = text.isascii() or is_plain(text)
        return [word.span() for word in WORD.finditer(text)] if plain else words_of(text, self._segment)[0]

    def _certain_stop_words(self, text: str, places: Spans) -> Collection[str]:
        """Return the stop words of the language that a text in an index of several is certainly in, if it is not
        English: `die` is one in a German query, but a word of an English one."""
        if len(self.languages) == 1 or self._stop_words != "auto":
            return ()
        words, known = {text[start:end].lower() for start, end in places}, languages()
        counts = [len(words & known[code].words) for code in self.languages]
        certain = max(counts) >= _CERTAIN and words.isdisjoint(known[ENGLISH].words)
        return known[self.languages[counts.index(max(counts))]].words if certain else ()


def is_cut_by_blanks(text: str) -> bool:
    """Return True if no word of a text has a blank, so that its pieces can be analysed one by one."""
    return text.isascii() and END_OF_TEXT not in text and not _may_have_forms(text)


def pieces_of(texts: Sequence[str]) -> list[str]:
    """Return the pieces of such texts, with END_OF_TEXT after each: a word with its signs, several that are joined, or
    signs alone. Few pieces of many texts are different, so each is analysed once."""
    text = f" {END_OF_TEXT} ".join([*texts, ""])
    return text.translate(_BLANKS).replace(". ", " ").replace(", ", " ").split()


def _may_have_forms(text: str) -> bool:
    """Return True if a text may have words that belong together or to a sign."""
    return "&" in text or " -" in text or "`-" in text or ("." in text and re.search(r"\.\w\b", text) is not None)


def stop_terms(word: str) -> tuple[str, ...]:
    """Return the terms of a stop word in a text: in lower case, and in capitals if it is written so."""
    lower = STOP + fold(word)
    return (lower, STOP + word) if _is_capital(word) else (lower,)


def searched_stop_words(stops: Sequence[str], query: str, *, alone: bool) -> list[str]:
    """Return the stop words of a query that are searched for, as rows have them: all if it has no other words, `alone`;
    else those in capitals, which are names (WHO, IT)."""
    if not alone and query.isupper():
        return []
    named = [word for word in stops if _is_capital(word) and word.lower() not in _OPERATORS]
    return [word if word in named else fold(word) for word in stops] if alone else named


def _is_capital(word: str) -> bool:
    return len(word) > 1 and word.isupper()


_REMEMBERED = 1_000_000
"""Maximum number of cached words: natural text repeats itself, and a stemmer call costs ten times a look-up."""
_LONGEST = 100
"""Characters of a word that is cached."""


class _Rules(NamedTuple):
    """Rules for the words of a language."""

    stop_words: Collection[str]
    folded: bool
    """True if stop words are compared without marks."""
    stem: Callable[[str], str] | None
    stems: Callable[[Sequence[str]], list[str]] | None
    """The same of several words, in a fraction of the time."""
    english: bool


@cache
def _stemmer(algorithm: str) -> Any:
    import Stemmer

    stemmer = Stemmer.Stemmer(algorithm)
    stemmer.maxCacheSize = 0  # words are cached above; its own cache makes a new word take four times as long
    return stemmer


@cache
def _segmenter(name: str) -> Segmenter:
    added = plugins.load(name) if name in plugins.installed() else None
    if not isinstance(added, Plugin) or added.kind != "segmenter":
        raise UsageError(f"{quoted(name)} is not a segmenter", hint="install the package that adds it, or build again")
    segment: Segmenter = added.make()
    return segment


def _is_of_letters(word: str) -> bool:
    return not word.isascii() and all(category(char)[0] in "LM" for char in word)


def known_language(name: str) -> str:
    """Return the code of a language. Raises: UsageError: it is unknown."""
    if code := language_named(name):
        return code
    raise UsageError(f"unknown language {quoted(name)}", hint="use a code of docs/languages.md, such as de, or none")


def _forms(word: str) -> list[str]:
    """Return a compound without its joints, empty if it has none, followed by the parts of a name, if they look like
    words: AB-1234 is AB1234; listApiKeys is list, Api and Keys; 10um is 10 and um; but 3D and NIfTI are one."""
    if word.isalpha() and (word[1:].islower() or word.isupper()):
        return [""]
    pieces = [piece for piece in _JOINT.split(word.rpartition(":")[2]) if piece]
    parts = [part for piece in pieces for part in re.split(_BOUNDARY, piece)]
    like_words = (
        part.isdigit() or (len(part) > 1 and (part[1:].islower() or part.removesuffix("s").isupper())) for part in parts
    )
    named = len(pieces) < len(parts) <= _MOST_PARTS and all(like_words)
    return ["".join(pieces) if len(pieces) > 1 else "", *(parts if named else ())]


def _parts(word: str) -> list[str]:
    """Return the word, followed by the parts of a compound. Of `key:value` only the value is a separate part, of a
    version its number."""
    if word.isalpha() and word.islower():
        return [word]
    if word[:1] in "vV" and "." in word:
        return [word[1:]]
    whole, value = [word], word.rpartition(":")[2]
    pieces = [piece for piece in _JOINT.split(value) if piece]
    if pieces != [word]:
        whole += pieces
    for piece in pieces:
        camel = _CAMEL.split(piece)
        if len(camel) > 1 and all(len(part) >= _SHORTEST_PART for part in camel):
            whole += camel
    return whole
