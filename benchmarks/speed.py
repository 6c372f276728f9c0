"""Speed on the bio.tools catalog, side by side with the naive peer in the same run."""

import json
import shutil
import statistics
import sys
import time

import numpy as np

from benchmarks.process import DATA, NAIVE, RETRIEVE, ROOT, WORK, in_turn, median, run

CORPUS = DATA / "biotools" / "corpus.jsonl"
ARTIFACTS = WORK / "biotools"
PEER = WORK / "naive"
CATALOG = WORK / "biotools.jsonl"
SYNCS = (
    ("nothing changed", 0, 5, 0.005),
    ("1 record changed", 1, 5, 0.02),
    ("1 % changed", 196, 3, 0.05),
    ("10 % changed", 1965, 1, 0.15),
)
"""Change, number of changed records, number of measurements, and maximum share of a build's time."""
QUESTION = "align short reads to a reference genome"


def line(what: str, figure: str, wanted: str, reached: bool) -> bool:
    """Prints one figure beside what it is held to; whether it was reached."""
    print(f"  {what:44} {figure:58} {wanted:24} {'ok' if reached else 'BELOW'}", flush=True)
    return reached


def build() -> bool:
    """The whole catalog, from JSONL to a live index; then what it takes to follow the catalog as it changes."""
    shutil.rmtree(ARTIFACTS, ignore_errors=True)
    shutil.copy(CORPUS, CATALOG)
    done = run((*RETRIEVE, "build", "--catalog", str(CATALOG), "--artifacts", str(ARTIFACTS), "--json"))
    report = json.loads(done.output)
    figure = f"{report['records'] / done.seconds:.0f} records/s, {done.seconds:.0f} s, peak {done.mebibytes:.0f} MiB"
    reached = line("build of 19,649 records", figure, "≤ 1,500 MiB", done.mebibytes <= 1500)
    if not (PEER / "bm25.pkl").exists():
        run((*NAIVE, "build", str(CORPUS), str(PEER)))
    lines = CORPUS.read_text("utf-8").splitlines()
    for what, changed, rounds, limit in SYNCS:
        reached &= _sync(what, lines, changed=changed, rounds=rounds, limit=limit, build=done.seconds)
    shutil.copy(CORPUS, CATALOG)
    run((*RETRIEVE, "sync", "--artifacts", str(ARTIFACTS)))
    return reached


def _sync(what: str, lines: list[str], *, changed: int, rounds: int, limit: float, build: float) -> bool:
    """Median seconds of a sync after `changed` of the lines got another text, beside those of the whole build."""
    seconds, embedded = [], 0
    for number in range(rounds):
        for at in range(changed):
            place = at * len(lines) // changed + number
            record = json.loads(lines[place])
            lines[place] = json.dumps({**record, "text": f"{record['text']} Edited {what} {number}."})
        if changed:
            CATALOG.write_text("\n".join(lines) + "\n", "utf-8")
        done = run((*RETRIEVE, "sync", "--artifacts", str(ARTIFACTS), "--json"))
        report = json.loads(done.output)
        assert report["changed"] == changed, report
        seconds.append(done.seconds)
        embedded = report["embedded"]
    median = statistics.median(seconds)
    figure = f"{median:.2f} s, {embedded} embedded; {median / build:.2%} of the build"
    return line(f"sync, {what}", figure, f"≤ {limit:.1%}", median / build <= limit)


def cold_query() -> bool:
    """A whole process, from the shell to ten answers."""
    ours = (*RETRIEVE, "query", QUESTION, "--artifacts", str(ARTIFACTS))
    mine, theirs, ratio = in_turn(ours, (*NAIVE, "query", str(PEER), QUESTION), rounds=5)
    peak = max(each.mebibytes for each in mine)
    naive = f"naive {median(theirs):.2f} s, {theirs[0].mebibytes:.0f} MiB"
    figure = f"{median(mine):.3f} s, {peak:.0f} MiB; {naive}; {ratio:.1f}×"
    return line("cold query, whole process", figure, "≥ 15×, ≤ 350 MiB", ratio >= 15 and peak <= 350)


def help_text() -> bool:
    """`retrieve --help` against the peer's imports."""
    imports = (sys.executable, "-c", f"import sys; sys.path.insert(0, {str(ROOT / 'benchmarks')!r}); import naive")
    mine, theirs, ratio = in_turn((*RETRIEVE, "--help"), imports, rounds=5)
    figure = f"{median(mine):.3f} s; naive imports {median(theirs):.2f} s; {ratio:.1f}×"
    return line("retrieve --help", figure, "≥ 10×", ratio >= 10)


def loaded_query() -> bool:
    """Queries in one process, encode included, by stage."""
    from retrieve_cli.config.settings import Settings
    from retrieve_cli.contracts import Request
    from retrieve_cli.search.opened import Opened
    from retrieve_cli.search.searcher import Searcher
    from retrieve_cli.storage.store import Store

    opened = Opened.of(Store(ARTIFACTS), Settings())
    texts = [json.loads(each)["text"] for each in (DATA / "biotools" / "queries.jsonl").open(encoding="utf-8")]
    seconds, encode, search = [], [], []
    for text in [*texts[:20], *texts]:
        begun = time.perf_counter()
        [answer] = Searcher(opened, opened.options(k=10, mode="hybrid")).answer([Request(text)])
        seconds.append(time.perf_counter() - begun)
        encode.append(answer.timings_ms["encode"])
        search.append(answer.timings_ms["search"])
    total = np.array(seconds[20:]) * 1000
    stages = f"encode {np.median(encode[20:]):.1f}, search {np.median(search[20:]):.1f}"
    figure = f"p50 {np.median(total):.1f} ms ({stages}), p95 {np.percentile(total, 95):.1f} ms"
    return line("query, loaded, in process", figure, "p95 ≤ 30 ms", bool(np.percentile(total, 95) <= 30))


def throughput() -> bool:
    """Natural texts to vectors, against SentenceTransformer.encode at its defaults."""
    from sentence_transformers import SentenceTransformer

    from benchmarks.naive import MODEL
    from retrieve_cli.assemble.encoders import encoder_to_build
    from retrieve_cli.config.settings import Settings

    records = [json.loads(each) for each in CORPUS.open(encoding="utf-8")][::10]
    texts = [f"{record['title']}: {record['text']}" for record in records]
    ours, peer = encoder_to_build(Settings()), SentenceTransformer(str(MODEL), device="cpu")
    ours.encode_passages(texts[:32]), peer.encode(texts[:32])
    ratios, cosines, rates = [], [], []
    for _ in range(3):
        begun = time.perf_counter()
        mine = ours.encode_passages(texts)
        between = time.perf_counter()
        theirs = peer.encode(texts)
        ratios.append((time.perf_counter() - between) / (between - begun))
        rates.append(len(texts) / (between - begun))
        cosines.append(float((mine * theirs).sum(1).min()))
    rate, ratio = statistics.median(rates), statistics.median(ratios)
    figure = f"{rate:.0f} texts/s, {ratio:.2f}×, least cosine {min(cosines):.6f}"
    return line("embedding on the CPU", figure, "≥ 2×, cosine ≥ 0.9999", ratio >= 2 and min(cosines) >= 0.9999)


def bm25_latency() -> bool:
    """One query at 100,000 documents, against rank_bm25 over the same terms."""
    from rank_bm25 import BM25Okapi

    from retrieve_cli.contracts import Field
    from retrieve_cli.retrieval.retrievers.analyzer import TextAnalyzer
    from retrieve_cli.retrieval.retrievers.bm25_index import Bm25Index
    from retrieve_cli.retrieval.retrievers.bm25_writer import Bm25Writer
    from retrieve_cli.storage import pickles

    words = " ".join(json.loads(each)["text"] for each in CORPUS.open(encoding="utf-8")).split()
    generator = np.random.default_rng(0)
    sizes, starts = generator.integers(20, 80, 100_000), generator.integers(0, len(words) - 80, 100_000)
    documents = [" ".join(words[start : start + size]) for start, size in zip(starts, sizes, strict=True)]
    analyzer = TextAnalyzer()
    writer = Bm25Writer(analyzer=analyzer, unit="record")
    for document in documents:
        writer.add([Field("text", document)])
    path = WORK / "bm25-100k.pkl"
    writer.write(path)
    index, peer = Bm25Index([pickles.load(path)]), BM25Okapi([analyzer.terms(document) for document in documents])
    queries = [" ".join(generator.choice(words, 10)) for _ in range(200)]
    mine = [_seconds(lambda text=text: index.search([text], depth=200)) for text in queries]
    theirs = [_seconds(lambda text=text: peer.get_scores(analyzer.terms(text)).argsort()) for text in queries[:20]]
    ours, naive = np.percentile(mine, 95) * 1000, np.percentile(theirs, 95) * 1000
    figure = f"p95 {ours:.2f} ms; rank_bm25 {naive:.0f} ms; {naive / ours:.0f}×"
    return line("BM25 at 100,000 documents, ten words", figure, "≥ 100×", bool(naive / ours >= 100))


def folder() -> bool:
    """A folder of documents, from markdown to a live index."""
    docs = DATA / "kubernetes-docs" / "markdown"
    shutil.rmtree(WORK / "kubernetes", ignore_errors=True)
    done = run((*RETRIEVE, "build", "--docs-dir", str(docs), "--artifacts", str(WORK / "kubernetes"), "--json"))
    report = json.loads(done.output)
    refused = report["quarantined"]
    figure = f"{report['chunks']} chunks, {done.seconds:.0f} s, peak {done.mebibytes:.0f} MiB, refused {refused}"
    return line("docs folder, 1,188 files", figure, "nothing refused", refused == 0)


def _seconds(call: object) -> float:
    begun = time.perf_counter()
    call()  # type: ignore[operator]
    return time.perf_counter() - begun
