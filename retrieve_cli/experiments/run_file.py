"""Runs as TREC has them: the lines of a file, and how ids stand there."""

from __future__ import annotations

from retrieve_cli.evaluation.judgments import Run
from retrieve_cli.evaluation.measures import ranked
from retrieve_cli.evaluation.trec import TrecIds


def trec_ids(run: Run) -> TrecIds:
    """Spelling of the ids of a run in a TREC file."""
    return TrecIds.of(run, (document for scores in run.values() for document in scores))


def run_lines(run: Run, *, tag: str) -> str:
    """The run as TREC has it: `query Q0 document rank score tag`, the rank by trec_eval's order of equal scores."""
    ids, lines = trec_ids(run), []
    for query, scores in run.items():
        written = {ids.document(document): score for document, score in scores.items()}
        for rank, (document, score) in enumerate(ranked(written), 1):
            lines.append(f"{ids.query(query)} Q0 {document} {rank} {score!r} {tag}\n")
    return "".join(lines)
