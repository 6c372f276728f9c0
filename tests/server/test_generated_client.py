"""A client that openapi-python-client generates from the description has typed calls that work."""

import subprocess
import sys
from importlib import import_module
from typing import Any

import pytest
from servers import Server
from waiting import PATIENCE_S, until

pytest.importorskip("openapi_python_client", reason="pip install openapi-python-client")
UNSUPPORTED = ("application/x-ndjson", "image/png")
"""Media types that the generator leaves to its user."""


@pytest.fixture(scope="module")
def package(server: Server, tmp_path_factory: pytest.TempPathFactory) -> str:
    """The name of the generated package, which can be imported."""
    folder = tmp_path_factory.mktemp("generated")
    (folder / "openapi.json").write_bytes(server.get("/openapi.json").data)
    command = [sys.executable, "-m", "openapi_python_client", "generate", "--path", "openapi.json"]
    command += ["--output-path", "retrieve_client", "--meta", "none"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    said = done.stdout + done.stderr
    assert "Unable to process" not in said, said
    assert said.count("WARNING") == sum(said.count(f"content type {kind}") for kind in UNSUPPORTED[:1]) + 1, said
    sys.path.insert(0, str(folder))
    return "retrieve_client"


def test_a_generated_client_searches_adds_follows_lists_and_reads_errors(server: Server, package: str) -> None:
    def of(name: str) -> Any:
        return import_module(f"{package}.{name}")

    models = of("models")
    with of("client").Client(base_url=server.url) as client:
        request = models.SearchRequest(query="segment lungs in CT", limit=1, related=models.SearchRequestRelated.BRIEF)
        answer = of("api.search.search").sync(client=client, body=request)
        assert isinstance(answer, models.SearchAnswer)
        assert (answer.results[0].doc_id, answer.total_results) == ("lungs", 1)
        assert answer.results[0].source_scores["bm25"].rank == 1

        failed = of("api.search.search").sync_detailed(client=client, body=models.SearchRequest(query=""))
        assert failed.status_code == 422
        assert isinstance(failed.parsed, models.ErrorAnswer)
        assert (failed.parsed.error.kind, failed.parsed.error.message) == ("usage", "the query is empty")

        passages = of("api.shapes.retrieve_passages").sync(
            client=client, body=models.RetrievePassagesRequest(query="brain MRI", top_k=1)
        )
        assert passages.passages[0].source.path == "tools.jsonl"

        document = models.NewDocument.from_dict({"id": "mytool", "title": "My tool", "text": "Segments lungs."})
        receipt = of("api.documents.add_documents").sync(client=client, body=document)
        assert isinstance(receipt, models.DocumentsReceipt)
        get_task = of("api.index.get_task").sync
        until(lambda: get_task(receipt.task, client=client).status != "queued", "the begin of the task")
        until(lambda: get_task(receipt.task, client=client).status == "succeeded", "the end of the task")

        later = models.SearchRequest(query="segments lungs", at_least=receipt.sequence, limit=1)
        assert [each.doc_id for each in of("api.search.search").sync(client=client, body=later).results] == ["mytool"]
        page = of("api.documents.list_documents").sync(client=client, limit=1)
        assert (page.total, len(page.records)) == (6, 1)
        missing = of("api.documents.get_document").sync("nope", client=client)
        assert isinstance(missing, models.ErrorAnswer)
        assert missing.error.kind == "not_found"
