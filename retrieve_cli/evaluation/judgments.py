"""Queries with their judgments from gold files, BEIR folders and TREC files, checked completely.

A line that cannot be read is an error with file and line, before any query is answered: a measure over the readable
rest would measure something else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from ctypes import c_float
from html import unescape
from math import isfinite, nan
from pathlib import Path

from retrieve_cli.assemble.sources import TABLES, table_rows
from retrieve_cli.contracts import Json
from retrieve_cli.errors import UsageError, quoted
from retrieve_cli.frozen import Frozen, field
from retrieve_cli.untrusted import files
from retrieve_cli.untrusted.texts import read_user_text

Grades = Mapping[str, int]
"""Relevance by record id; 0 and below is judged and not relevant."""
HIGHEST = 1000
"""The largest grade: trec_eval needs memory and time for every grade up to the highest."""
Run = Mapping[str, Mapping[str, float]]
"""Scores by record id, by query id. The records are in the order of their ranking."""


class Topic(Frozen):
    """A query and its relevant records, chunks or group."""

    id: str
    text: str
    grades: Grades = field(default_factory=dict)
    group: str | None = None
    """The group that its answer belongs to."""
    quote: str | None = None
    """A piece of text; chunks that contain it are relevant."""
    file: str | None = None
    """Path or glob of files, as records name them; chunks of these files are relevant."""
    heading: str | None = None
    """Heading of a section; chunks of this section are relevant."""
    files: tuple[str, ...] = ()
    """Paths of files that the query is about."""
    synthetic: str | None = None
    """Origin of a generated query: titles, headings, and so on."""

    @property
    def names_place(self) -> bool:
        """True if a file or a heading is the place of its answer."""
        return self.file is not None or self.heading is not None

    @property
    def names_chunks(self) -> bool:
        """True if it names relevant chunks, by their place or by a quote."""
        return self.names_place or self.quote is not None


def read_gold(path: Path) -> list[Topic]:
    """Return the topics of a gold file of JSON lines: `query`, and `relevant`, `group`, `quote`, `file` or `heading`;
    or of a table with these columns.

    `files` are files that the query is about, as paths relative to the gold file. `file` is the place of the answer: a
    path within the folder of documents, or a glob.

    Raises:
        UsageError: the file cannot be read, or a line has another form.
    """
    items = _rows(path) if path.suffix.lower() in TABLES else _objects(path)
    topics = [_gold_topic(item, f"{path}:{number}", number, path.parent) for number, item in items]
    _reject_repeated((topic.id for topic in topics), f"{path} has two queries with the id")
    return _some(topics, path)


def read_beir(folder: Path, split: str) -> tuple[list[Topic], int]:
    """Return the topics of a BEIR folder that are judged in a split, and the number of other queries.

    Raises:
        UsageError: a file is missing or has another form.
    """
    qrels = folder / "qrels" / f"{split}.tsv"
    if not qrels.is_file():
        there = ", ".join(sorted(path.stem for path in (folder / "qrels").glob("*.tsv"))) or "none"
        raise UsageError(f"{folder} has no judgments {qrels}", hint=f"available splits: {there}")
    return read_files(folder / "queries.jsonl", qrels)


def read_files(queries: Path, qrels: Path) -> tuple[list[Topic], int]:
    """Return the topics of a file of queries and a file of judgments, and the number of queries without judgments.

    Queries are JSON Lines with `_id` and `text`, `id TAB text`, or topics of TREC (`<top>`).
    Judgments are TREC's `query 0 document grade`, or BEIR's three columns under a header.

    Raises:
        UsageError: a line is neither, a judgment is given twice, or its query is not among the queries.
    """
    texts = _read_texts(queries)
    judged: dict[str, dict[str, int]] = {}
    for where, query, document, grade in _judgments(qrels):
        if query not in texts:
            raise UsageError(
                f"{where}: query {quoted(query)} is not in {queries}",
                hint="name the file of queries that belongs to these judgments",
            )
        if document in judged.setdefault(query, {}):
            raise UsageError(
                f"{where}: {quoted(document)} is judged twice for query {quoted(query)}", hint="keep one of the two"
            )
        judged[query][document] = grade
    topics = [Topic(name, text, judged[name]) for name, text in texts.items() if name in judged]
    return _some(topics, qrels), len(texts) - len(topics)


def read_run(path: Path) -> Run:
    """Return a TREC run, `query Q0 document rank score tag` on each line, in trec_eval's order.

    Raises:
        UsageError: a line has another form, or lists a document twice for a query.
    """
    run: dict[str, dict[str, float]] = {}
    for where, (query, _, document, _, score, *_) in _columns(path, 6, "query Q0 document rank score tag"):
        if document in run.setdefault(query, {}):
            raise UsageError(
                f"{where}: {quoted(document)} is listed twice for query {quoted(query)}", hint="keep one of the two"
            )
        run[query][_check_id(document, where)] = _number(score, where)
    if not run:
        raise UsageError(f"{path} is not a run: it has no lines", hint="a line is: query Q0 document rank score tag")
    return {query: in_trec_order(scores) for query, scores in run.items()}


def in_trec_order(scores: Mapping[str, float]) -> dict[str, float]:
    """Return the scores of a query in trec_eval's order.

    trec_eval keeps scores in single precision; of equal scores the id comes first that sorts last.
    """
    names = sorted(scores, key=lambda name: name.encode(errors="surrogatepass"), reverse=True)
    names.sort(key=lambda name: -c_float(scores[name]).value)
    return {name: scores[name] for name in names}


# ------------------------------------------------------------------------------------------------- gold


def _gold_topic(item: Mapping[str, Json], where: str, number: int, folder: Path) -> Topic:
    text = item.get("query", item.get("text"))
    if not isinstance(text, str) or not text.strip():
        raise UsageError(f"{where} has no `query`", hint=_GOLD)
    known = {"query", "text", "relevant", "id", "_id", "files", "metadata", "synthetic", *_ANSWERS}
    if strange := sorted(item.keys() - known):
        raise UsageError(f"{where}: unknown key `{strange[0]}`", hint=_GOLD)
    grades = _grades(item.get("relevant", {}), where)
    texts: dict[str, str | None] = {name: item.get(name) for name in (*_ANSWERS, "synthetic")}
    for name, value in texts.items():
        if value is not None and not (isinstance(value, str) and value.strip()):
            raise UsageError(f"{where}: `{name}` is {quoted(value)}, not a text", hint=_GOLD)
    if not grades and all(texts[name] is None for name in _ANSWERS):
        raise UsageError(f"{where} has a query without judgments", hint=_GOLD)
    files = item.get("files", [])
    if not isinstance(files, list) or not all(isinstance(name, str) and name for name in files):
        raise UsageError(f"{where}: `files` is {quoted(files)}, not a list of paths", hint=_GOLD)
    name = item.get("id", item.get("_id"))
    return Topic(
        id=_check_id(str(number if name is None else name), where),
        text=text,
        grades=grades,
        files=tuple(str(folder / each) for each in files),
        **texts,
    )


_ANSWERS = ("group", "quote", "file", "heading")
"""Keys beside `relevant` that judge a query."""
_GOLD = (
    'a line is {"query": "…", "relevant": ["id", …] or {"id": grade, …}}; `relevant` may be replaced or '
    'completed by "group", "quote", "file", "heading"'
)


def _grades(relevant: Json, where: str) -> dict[str, int]:
    if isinstance(relevant, list):
        _reject_repeated(map(str, relevant), f"{where}: `relevant` names twice")
        relevant = dict.fromkeys(map(str, relevant), 1)
    if not isinstance(relevant, dict):
        raise UsageError(f"{where}: `relevant` is neither a list of ids nor grades by id", hint=_GOLD)
    return {_check_id(name, where): _grade(grade, name, where) for name, grade in relevant.items()}


def _grade(value: Json, name: str, where: str) -> int:
    """Return the grade of a record, of JSON or of a line.

    Raises:
        UsageError: it is not a whole number, or trec_eval, which counts up to it, would hang.
    """
    try:
        number = float("" if isinstance(value, bool) or "_" in str(value) else value)
    except (TypeError, ValueError, OverflowError):
        number = nan
    if not number.is_integer():
        message = f"{where}: the grade of {quoted(name)} is {quoted(value)}, not a whole number"
        raise UsageError(message, hint="write a number such as 0, 1 or 2")
    if abs(number) > HIGHEST:
        raise UsageError(f"{where}: {value} is not a grade", hint=f"grades go up to {HIGHEST}")
    return int(number)


def _check_id(name: str, where: str) -> str:
    """Return the id. Raises: UsageError: the programs that compute measures cannot take it."""
    if not name or "\0" in name or any("\ud800" <= char <= "\udfff" for char in name):
        raise UsageError(f"{where}: {quoted(name)} is not an id", hint="an id is valid Unicode text without NUL")
    return name


# ------------------------------------------------------------------------------------------ files of lines


def _read_texts(path: Path) -> dict[str, str]:
    found = []
    start = "".join(line for _, line in _lines(path)[:1]).lstrip()[:1]
    if start == "{":
        for number, item in _objects(path):
            name, text = item.get("_id", item.get("id")), item.get("text", item.get("query"))
            if name is None or not isinstance(text, str) or not text.strip():
                raise UsageError(f"{path}:{number} has no `_id` or no `text`", hint="name a file of queries")
            found.append((_check_id(str(name), f"{path}:{number}"), text))
    elif start == "<":
        found = [*_trec_topics(path)]
    else:
        for number, line in _lines(path):
            name, tab, text = line.partition("\t")
            if not tab or not text.strip():
                raise UsageError(f"{path}:{number} is not `id TAB text`", hint="name a file of queries")
            found.append((name.strip(), text.strip()))
    _reject_repeated((name for name, _ in found), f"{path} has two queries with the id")
    return dict(found)


_TAG = re.compile(
    r"(?:^[ \t]*+<(?=[/a-z])|<(?=/?(?:topic|top|num|title|query|desc|narr)\b))"
    r"(/?[\w-]++)([^<>]*+)>",
    re.IGNORECASE | re.MULTILINE,
)
"""A tag of TREC topics: any at the start of a line; elsewhere `<` may be a part of the text."""


def _trec_topics(path: Path) -> Iterator[tuple[str, str]]:
    """Yield the id and the text of each topic: its title, else its query or description."""
    topics: list[dict[str, str]] = []
    _, *pieces = _TAG.split("\n".join(line for _, line in _lines(path)))
    for tag, attributes, text in zip(pieces[::3], pieces[1::3], pieces[2::3], strict=True):
        if tag.lower() in ("top", "topic"):
            topics.append({"num": attributes.partition('number="')[2].partition('"')[0]})
        elif topics and not topics[-1].get(tag.lower()):
            topics[-1][tag.lower()] = " ".join(text.split())
    for place, topic in enumerate(topics, 1):
        name = topic["num"].removeprefix("Number:").strip()
        text = topic.get("title") or topic.get("query") or topic.get("desc", "")
        text = unescape(text.removeprefix("Topic:").removeprefix("Description:").strip())
        if not name or not text:
            hint = "a topic is <top> <num> Number: 1 <title> the query </top>"
            raise UsageError(f"{path}: topic {place} has no number or no title", hint=hint)
        yield _check_id(name, f"{path}: topic {place}"), text


def _judgments(path: Path) -> Iterator[tuple[str, str, str, int]]:
    lines = _lines(path)
    if lines and lines[0][1].split()[:1] == ["query-id"]:
        for number, line in lines[1:]:
            columns = line.split("\t")
            where = f"{path}:{number}"
            if len(columns) != 3:
                raise UsageError(f"{where} is not `query TAB document TAB grade`", hint="name a file of judgments")
            yield where, columns[0], columns[1], _grade(columns[2], columns[1], where)
    else:
        for where, (query, _, document, grade) in _columns(path, 4, "query 0 document grade"):
            yield where, query, document, _grade(grade, document, where)


def _columns(path: Path, count: int, form: str) -> Iterator[tuple[str, list[str]]]:
    for number, line in _lines(path):
        columns = line.split()
        if len(columns) != count:
            raise UsageError(f"{path}:{number} is not `{form}`", hint="columns are separated by blanks")
        yield f"{path}:{number}", columns


def _objects(path: Path) -> Iterator[tuple[int, Mapping[str, Json]]]:
    for number, line in _lines(path):
        try:
            item = json.loads(line, object_pairs_hook=_once)
            json.dumps(item, ensure_ascii=False).encode()
        except UnicodeEncodeError as error:  # it could neither be searched for nor printed
            message = f"{path}:{number} has half of a character ({quoted(error.object[error.start])})"
            raise UsageError(message, hint="write whole characters, or escape both surrogates") from error
        except (ValueError, RecursionError) as error:
            topics = "for TREC topics: --queries FILE --qrels FILE"
            hint = topics if line.lstrip().startswith("<") else "write one object per line"
            raise UsageError(f"{path}:{number} is not JSON ({error})", hint=hint) from error
        if not isinstance(item, dict):
            raise UsageError(f"{path}:{number} is not a JSON object", hint="write one object per line")
        yield number, item


def _rows(path: Path) -> Iterator[tuple[int, Mapping[str, Json]]]:
    """Yield the rows of a table as objects; `relevant` and `files` are lists with `;`, or JSON."""
    for number, line, reason in table_rows(path):
        if reason:
            raise UsageError(f"{path}:{number}: {reason}", hint="fix that row")
        row = json.loads(line)
        item = {name: value if isinstance(value, list | dict) else str(value) for name, value in row.items()}
        for name in {"relevant", "files"} & item.keys():
            if isinstance(value := item[name], str):
                if value.lstrip()[:1] in ("[", "{"):
                    raise UsageError(f"{path}:{number}: {quoted(value)} is not JSON", hint="separate ids by `;`")
                item[name] = [part.strip() for part in value.split(";") if part.strip()]
        yield number, item


def _once(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Return an object. Raises: ValueError: a key is repeated, and either value may be meant."""
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the key {quoted(next(name for name in names if names.count(name) > 1))} is repeated")
    return found


def _lines(path: Path) -> list[tuple[int, str]]:
    try:
        text = read_user_text(path, limit=files.JUDGMENTS)
    except OSError as error:
        raise UsageError(f"cannot read {path}: {error.strerror}", hint="check the path") from error
    return [(number, line) for number, line in enumerate(text.split("\n"), 1) if line.strip()]


def _number(text: str, where: str) -> float:
    try:
        number = float(text)
        if "_" in text or not isfinite(number):  # what Python takes and no other program
            raise ValueError(text)
        return number
    except (ValueError, OverflowError) as error:
        raise UsageError(f"{where}: {quoted(text.strip())} is not a number", hint="fix that line") from error


def _reject_repeated(names: Iterable[str], what: str) -> None:
    seen = set()
    for name in names:
        if name in seen:
            raise UsageError(f"{what} {quoted(name)}", hint="keep one of the two")
        seen.add(name)


def _some(topics: list[Topic], path: Path) -> list[Topic]:
    if not topics:
        raise UsageError(f"{path} has no judgments", hint="name a file with judgments")
    return topics
