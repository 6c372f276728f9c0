"""TREC run files: their lines, and the spelling of ids in them."""

from __future__ import annotations

from retrieve_cli.evaluation.judgments import Run
from retrieve_cli.evaluation.measures import ranked
from retrieve_cli.evaluation.trec import TrecIds


def trec_ids(run: Run) -> TrecIds:
    """Return the spelling of the ids of a run in a TREC file."""
    return TrecIds.of(run, (document for scores in run.values() for document in scores))


def run_lines(run: Run, *, tag: str) -> str:
    """Return the lines of a TREC run, `query Q0 document rank score tag`, ranked in trec_eval's order."""
    ids, lines = trec_ids(run), []
    for query, scores in run.items():
        written = {ids.document(document): score for document, score in scores.items()}
        for rank, (document, score) in enumerate(ranked(written), 1):
            lines.append(f"{ids.query(query)} Q0 {document} {rank} {score!r} {tag}\n")
    return "".join(lines)
