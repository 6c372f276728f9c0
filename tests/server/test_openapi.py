"""The API description is complete and true: generated requests, sound and broken, get an answer and no server error.

HTTP_CASES is the number of requests over all routes, of which a few repeat themselves and are not sent.
`make fuzz-http` sends 2,000.
"""

import os
from contextlib import suppress
from math import ceil
from typing import Any
from urllib.parse import urlencode

import pytest
from hypothesis import HealthCheck, Phase, assume, given, settings
from hypothesis.errors import Unsatisfiable
from profiles import SEED
from servers import Server
from waiting import PATIENCE_S

CASES = int(os.environ.get("HTTP_CASES", "100"))
LONGEST = 50_000
"""Bytes of an address: the server cuts off a client that sends more than 64 KiB before the body."""
METHODS = {"get", "post", "put", "patch", "delete"}


@pytest.fixture(scope="module")
def description(server: Server) -> Any:
    return server.get("/openapi.json").json()


def operations(description: Any) -> list[tuple[str, str, Any]]:
    """Each route with its method and its description."""
    return [
        (path, method, operation)
        for path, methods in description["paths"].items()
        for method, operation in methods.items()
        if method in METHODS
    ]


def size_of(parameters: Any) -> int:
    """Bytes of the parameters of an address."""
    return len(urlencode(dict(parameters or {}), doseq=True))


def test_no_generated_request_is_a_server_error(server: Server, description: Any) -> None:
    import schemathesis
    from schemathesis import GenerationMode

    loaded = schemathesis.openapi.from_dict(description)
    found = [result.ok() for result in loaded.get_all_operations()]
    varied = [operation for operation in found if operation.definition.raw.keys() & {"parameters", "requestBody"}]
    sent, failures = 0, []
    for operation in found:
        for mode in (GenerationMode.POSITIVE, GenerationMode.NEGATIVE):

            @settings(
                max_examples=ceil(CASES / (2 * len(varied))),  # one request is all that there is to the others
                database=None,
                deadline=None,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
                derandomize=SEED == 0,
            )
            @given(operation.as_strategy(generation_mode=mode))
            def send(case: Any) -> None:
                nonlocal sent
                assume(len(case.as_transport_kwargs(base_url=server.url)["url"]) + size_of(case.query) < LONGEST)
                sent += 1
                answer = case.call(base_url=server.url, timeout=PATIENCE_S)
                if str(answer.status_code) not in case.operation.definition.raw["responses"]:
                    failures.append((case.as_curl_command(), answer.status_code, "is not described"))
                if answer.status_code >= 500 and '"no_reranker"' not in answer.text:  # 501: none is configured
                    failures.append((case.as_curl_command(), answer.status_code, answer.text))

            with suppress(Unsatisfiable):  # a route without a body or parameters cannot be called wrongly
                send()
    print(f"{sent} requests to {len(found)} operations")
    assert sent >= CASES // 2
    assert failures == []
    assert server.process.poll() is None
    assert server.search(query="segment lungs")["results"][0]["doc_id"] == "lungs"


@pytest.mark.parametrize("request_", [{"mode": "splade"}, {"retrievers": ["splade"]}, {"rerank": True}])
def test_a_part_that_the_index_does_not_have_is_an_error_of_the_request(server: Server, request_: Any) -> None:
    answer = server.post("/search", {"query": "lungs", **request_})
    assert (answer.status, answer.json()["error"]["kind"]) == (422, "unavailable")
    assert not answer.json()["error"]["retryable"]
