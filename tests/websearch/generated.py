"""Records of publications that do not exist, as several providers describe them, with the work of each record.

The works: articles, with preprints in several versions, of which some are declared and some have a changed title; works
that are easily confused (the same title by other authors or in another year, parts, near titles of the same authors,
titles such as `Editorial`); review comments, replies and corrections. The records: identifiers are missing, wrong or
of another version; names are abbreviated, without accents or with the family name first; titles have markup, another
spelling or no subtitle; dates have different precision. A preprint with a new title is declared by somebody.
"""

from __future__ import annotations

import random
import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from websearch import vocabulary as words

from retrieve_cli.contracts.works import Found, Id, RelationKind, Source, WorkType
from retrieve_cli.websearch import ids, items

_WORD = re.compile("[A-Za-z]+")
AT = "2026-11-23T04:00:00Z"
ARTICLE_PROVIDERS = {"pubmed": 0.75, "europepmc": 0.65, "s2": 0.8, "crossref": 0.45}
SHARE_OF_ENRICHED = 0.3
"""Records of Crossref that an enricher brought, without rank."""


@dataclass(frozen=True)
class Truth:
    """A work as it is."""

    number: int
    title: str
    authors: tuple[tuple[str, str], ...]
    """Given and family names."""
    year: int
    abstract: Sequence[str]
    doi: str
    pmid: str
    kind: str = "article"
    relations: tuple[tuple[RelationKind, Id | None], ...] = ()


@dataclass
class Made:
    """Records and the numbers of their works."""

    found: list[Found] = field(default_factory=list)
    works: list[int] = field(default_factory=list)


def generated(seed: int, *, records: int = 3000) -> Made:
    """Return about this many records, the same for the same seed."""
    maker = _Maker(random.Random(seed))
    kinds = (maker.article, maker.twins, maker.parts, maker.near, maker.annual, maker.generic, maker.preprint_only)
    while len(maker.made.found) < records:
        maker.chance.choices(kinds, weights=(70, 5, 4, 8, 3, 2, 8))[0]()
    return maker.shuffled()


class _Maker:
    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.made = Made()
        self.count = 0

    # ------------------------------------------------------------------------------------------- works

    def truth(self, **given: object) -> Truth:
        self.count += 1
        number = self.count
        year = self.chance.randint(2012, 2026)
        known = Truth(
            number,
            self.title(),
            tuple((self.given(), self.chance.choice(words.FAMILIES)) for _ in range(self.chance.randint(1, 9))),
            year,
            self.abstract(),
            f"10.{self.chance.randint(1000, 9999)}/{self.letters(6)}.{year}.{number}",
            str(10_000_000 + number * 7),
        )
        return replace(known, **given)  # type: ignore[arg-type]

    def title(self) -> str:
        pattern = self.chance.choice(words.PATTERNS)
        topic, topic2 = self.chance.sample(words.TOPICS, 2)
        text = pattern.format(
            topic=topic,
            topic2=topic2,
            subject=self.chance.choice(words.SUBJECTS),
            method=self.chance.choice(words.METHODS),
            agent=self.chance.choice(words.AGENTS),
            adjective=self.chance.choice(words.ADJECTIVES),
        )
        if self.happens(0.15) and ":" not in text and "?" not in text:
            text += f": {self.chance.choice(words.SUBTITLES)}"
        return text[0].upper() + text[1:]

    def abstract(self) -> list[str]:
        own = [word for _ in range(12) for word in self.title().split()]
        return [
            self.chance.choice(own if self.happens(0.55) else words.PROSE) for _ in range(self.chance.randint(60, 160))
        ]

    def given(self) -> str:
        middle = f" {self.chance.choice(string.ascii_uppercase)}." if self.happens(0.3) else ""
        return self.chance.choice(words.GIVEN) + middle

    def letters(self, count: int) -> str:
        return "".join(self.chance.choices(string.ascii_lowercase, k=count))

    def happens(self, probability: float) -> bool:
        return self.chance.random() < probability

    # ------------------------------------------------------------------------------------------- kinds

    def article(self) -> None:
        """An article; perhaps with a preprint, and with what was written about it."""
        work = self.truth()
        self.describe(work)
        if self.happens(0.45):
            self.preprint(work)
        if self.happens(0.15):
            self.comments(work)

    def preprint_only(self) -> None:
        self.preprint(self.truth(doi="", pmid=""))

    def twins(self) -> None:
        """The same title by other authors, or by the same ones years later."""
        work = self.truth()
        other = self.truth(title=work.title)
        if self.happens(0.3):
            other = replace(other, authors=work.authors, year=work.year + self.chance.randint(3, 8))
        self.describe(work)
        self.describe(other)

    def parts(self) -> None:
        """Parts of a series by the same authors."""
        work = self.truth()
        form = self.chance.choice(("{}. Part {}", "{} {}", "{}, part {}", "{} – Part {}"))
        roman = self.happens(0.5)
        for number in range(1, self.chance.randint(3, 4)):
            title = form.format(work.title, ("I", "II", "III")[number - 1] if roman else number)
            part = self.truth(title=title, authors=work.authors, year=work.year + self.chance.randint(0, 1))
            self.describe(part)

    def near(self) -> None:
        """Other works of the same first author, of which one word of the title differs."""
        work = self.truth()
        self.describe(work)
        changed = work.title.split()
        place = self.chance.randrange(len(changed))
        others = {*words.ADJECTIVES, *" ".join(words.TOPICS).split()} - {changed[place].lower()}
        changed[place] = self.chance.choice(sorted(others))
        other = self.truth(title=" ".join(changed), authors=work.authors, year=work.year + self.chance.randint(-1, 2))
        shared = [word for word in work.abstract if self.happens(0.4)]
        self.describe(replace(other, abstract=[*shared, *other.abstract[len(shared) :]]))
        if self.happens(0.2):
            self.preprint(other)

    def annual(self) -> None:
        """Reports of the same title by the same author, one a year."""
        topic = self.chance.choice(words.TOPICS)
        first = self.truth(title=f"Annual report on {topic} in {self.chance.choice(words.SUBJECTS)}")
        for year in range(self.chance.randint(2, 3)):
            report = self.truth(title=first.title, authors=first.authors, year=first.year + year)
            self.describe(report)

    def generic(self) -> None:
        """Works of one author whose titles say nothing."""
        titles = (
            "Editorial",
            "Introduction",
            "Guest editorial",
            "Reply",
            "Correction",
            "Letter to the editor",
            "Preface",
        )
        first = self.truth(title=self.chance.choice(titles))
        for _ in range(2):
            self.describe(self.truth(title=first.title, authors=first.authors, year=first.year, abstract=()))

    def comments(self, work: Truth) -> None:
        """Reviews, replies and corrections, which have the title of the work in theirs."""
        forms = ('Review for "{}"', "Decision letter: {}", "Author response: {}", "Reply to: {}", "Comment on “{}”",
                 "Correction to: {}", "Erratum: {}", "Peer review report for {}", "Author Correction: {}")  # fmt: skip
        for number, form in enumerate(self.chance.sample(forms, self.chance.randint(1, 3)), 1):
            declared = ((("reviews", ids.doi(work.doi)),) if self.happens(0.4) else ())  # fmt: skip
            response = form.startswith(("Author", "Reply", "Correction", "Erratum"))
            review = self.truth(
                title=form.format(work.title),
                authors=work.authors if response else self.truth().authors,
                year=work.year + self.chance.randint(0, 1),
                abstract=(),
                doi=f"{work.doi}.sa{number}" if self.happens(0.5) else f"10.{9000 + number}/{self.letters(8)}",
                pmid="",
                kind="review" if self.happens(0.6) and not form.startswith(("Correction", "Erratum")) else "article",
                relations=declared,
            )
            self.describe(review, providers={"crossref": 0.8, "s2": 0.5, "europepmc": 0.4})

    # ------------------------------------------------------------------------------------------- records

    def describe(self, work: Truth, providers: dict[str, float] | None = None) -> None:
        """Add records of a published work."""
        present = [name for name, share in (providers or ARTICLE_PROVIDERS).items() if self.happens(share)]
        for provider in present or ["s2"]:
            known = [
                ids.doi(work.doi) if self.happens(0.9 if provider != "crossref" else 1) else None,
                ids.pmid(work.pmid) if provider in ("pubmed", "europepmc") or self.happens(0.5) else None,
                ids.s2(f"{work.number:040x}") if provider == "s2" else None,
            ]
            if self.happens(0.03) and provider in ("s2", "crossref"):
                known[1] = ids.pmid(str(10_000_000 + self.chance.randint(1, self.count) * 7))
            if self.happens(0.004) and self.made.found:
                known[0] = ids.doi(f"10.1234/proceedings.{self.chance.randint(1, 4)}")
            if not any(known):
                known[0] = ids.doi(work.doi)
            kind: WorkType = "review" if work.kind == "review" and provider == "crossref" else "article"
            self.add(work, provider, kind, known, year=work.year + (self.happens(0.05) and provider != "s2"))
        if self.happens(0.15) and providers is None:
            self.page(work, f"https://journal.example/doi/full/{work.doi}")

    def preprint(self, work: Truth) -> None:
        """Add records of the versions of a preprint."""
        server = self.chance.choice(("arxiv", "biorxiv", "other"))
        number = f"{self.chance.randint(2001, 2612)}.{work.number:05}"
        doi = f"10.1101/{work.year}.01.{self.chance.randint(10, 28)}.{work.number:06}"
        doi = f"10.48550/arxiv.{number}" if server == "arxiv" else doi if server == "biorxiv" else (
            f"10.21203/rs.3.rs-{work.number + 100_000}")  # fmt: skip
        article = ids.doi(work.doi) if work.doi else None
        changed = bool(article) and self.happens(0.15)
        declared = bool(article) and (changed or self.happens(0.5))
        before = replace(
            work,
            title=self.title() if changed else self.reworded(work.title) if self.happens(0.2) else work.title,
            year=work.year - (self.happens(0.5) if work.doi else 0),
            abstract=[word if self.happens(0.9) else self.chance.choice(words.PROSE) for word in work.abstract],
            relations=(("preprint_of", article),) if declared else (),
        )
        own = {"arxiv": "arxiv", "biorxiv": "biorxiv", "other": "europepmc"}[server]
        for version in range(1, self.chance.randint(2, 4)):
            known: list[Id | None] = [ids.doi(f"{doi}/v{version}" if server == "other" else doi)]
            known.append(ids.arxiv(number) if server == "arxiv" else None)
            self.add(before, own, "preprint", known, year=before.year, version=str(version))
        if self.happens(0.4):
            s2 = [
                ids.doi(doi),
                ids.s2(f"{work.number + 500_000:040x}"),
                ids.arxiv(number) if server == "arxiv" else None,
            ]
            self.add(
                replace(before, relations=()), "s2", self.chance.choice(("preprint", "article")), s2, year=before.year
            )
        if self.happens(0.15):
            address = f"https://arxiv.org/pdf/{number}v1" if server == "arxiv" else f"https://doi.org/{doi}"
            self.page(before, address)

    def page(self, work: Truth, address: str) -> None:
        title = self.chance.choice(("{} | Journal", "{} - PDF", "[full text] {}", "Sign in")).format(work.title)
        made = items.made(type="web", title=title, ids_=(), url=address, snippet=" ".join(work.abstract[:20]))
        self.keep(made, work.number, "tavily", rank=True)

    def add(
        self, work: Truth, provider: str, kind: WorkType, known: Iterable[Id | None], *, year: int, version: str = ""
    ) -> None:
        style = self.chance.choice(("given", "initials", "last", "comma")) if provider != "crossref" else "given"
        authors = [self.name(given, family, style) for given, family in work.authors]
        has_abstract = self.happens(0.3 if provider == "crossref" else 0.8)
        month = f"-{self.chance.randint(1, 12):02}"
        made = items.made(
            type=kind,
            title=self.written(work.title, provider),
            ids_=known,
            authors=authors,
            first_family=work.authors[0][1] if provider in ("pubmed", "europepmc", "crossref") else "",
            date=f"{year}{self.chance.choice(('', month, month + '-15'))}" if self.happens(0.97) else "",
            venue=self.chance.choice(words.VENUES),
            abstract=" ".join(work.abstract) if has_abstract else "",
            version=version,
            relations=work.relations if self.happens(0.9) or kind == "preprint" else (),
        )
        self.keep(made, work.number, provider, rank=provider != "crossref" or not self.happens(SHARE_OF_ENRICHED))

    def keep(self, made: items.Item | None, number: int, provider: str, *, rank: bool) -> None:
        if made is None:
            raise ValueError("a record without title or identifier")
        place = len(self.made.found) + 1
        self.made.found.append(Found(made, Source(provider, place if rank else None, "q", AT, f"{place:064x}")))
        self.made.works.append(number)

    def name(self, given: str, family: str, style: str) -> str:
        if self.happens(0.3):
            family = "".join(c for c in unicodedata.normalize("NFKD", family) if not unicodedata.combining(c))
            family = family.translate(str.maketrans({"ø": "o", "Ø": "O", "ł": "l", "Ł": "L"})).replace("ß", "ss")
        initials = [part[0] for part in given.replace("-", " ").split()]
        return {
            "given": f"{given} {family}",
            "initials": " ".join(f"{initial}." for initial in initials) + f" {family}",
            "last": f"{family} {''.join(initials)}",
            "comma": f"{family}, {given}",
        }[style]

    def written(self, title: str, provider: str) -> str:
        """Return a title as a provider writes it."""
        if self.happens(0.2):
            title = _WORD.sub(lambda word: words.BRITISH.get(word[0], word[0]), title)
        if self.happens(0.2):
            for greek, name in (("α", "alpha"), ("β", "beta"), ("γ", "gamma"), ("κ", "kappa")):
                title = title.replace(greek, f"$\\{name}$" if provider == "arxiv" else name)
        if provider in ("crossref", "europepmc") and self.happens(0.3):
            first, _, rest = title.partition(" in ")
            title = f"{first} in <i>{rest}</i>" if rest else title
            title = title.replace("CO2", "CO<sub>2</sub>").replace(" and ", " &amp; ")
        if provider == "crossref" and self.happens(0.2) and ":" in title and len(title.partition(":")[0]) > 40:
            title = title.partition(":")[0]
        if self.happens(0.1) and "&" not in title:
            title = title.upper() if self.happens(0.3) else title.title()
        return f"{title}." if provider == "pubmed" else title.replace("-", "‐") if self.happens(0.05) else title

    def reworded(self, title: str) -> str:
        """Return a title as a preprint has it: without an article, with or without `the`, with another conjunction."""
        changes = (("Effects of", "The effects of"), (" and ", " & "), (" with ", " using "), (" in ", " in the "),
                   ("reveals", "reveals"), ("behavior", "behaviour"), ("Role of", "The role of"))  # fmt: skip
        old, new = self.chance.choice(changes)
        return title.replace(old, new, 1)

    def shuffled(self) -> Made:
        order = list(range(len(self.made.found)))
        self.chance.shuffle(order)
        return Made([self.made.found[place] for place in order], [self.made.works[place] for place in order])


def pairs(truth: Sequence[object], answer: Sequence[object]) -> tuple[float, float]:
    """Return precision and recall over pairs of records that are of one work."""

    def count(labels: Iterable[object]) -> int:
        sizes: dict[object, int] = {}
        for label in labels:
            sizes[label] = sizes.get(label, 0) + 1
        return sum(size * (size - 1) // 2 for size in sizes.values())

    both = count(zip(truth, answer, strict=True))
    return both / max(count(answer), 1), both / max(count(truth), 1)
