"""Metrics: names and labels, sums over processes, and the numbers of a server with several workers."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families
from servers import sent, started, state_of

from retrieve_cli.server.http.app import server_app
from retrieve_cli.server.http.metrics import SHARED, SYNCED, Metrics

_LAST = ("le", "reason")


def numbers(text: str) -> dict[tuple[str, ...], float]:
    """Samples by name and label values, as a client of Prometheus reads them; a bucket or a reason comes last."""
    return {
        (
            sample.name,
            *(sample.labels[name] for name in sorted(sample.labels, key=lambda name: name in _LAST)),
        ): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_a_search_counts_by_route_stage_and_generation_without_a_word_of_it(artifacts: Path) -> None:
    state = state_of(artifacts)
    searches = [("POST", "/search", {"json": {"query": text}}) for text in ("segment secret lungs", "secret brain")]
    wrong = [("POST", "/search", {"json": {"secret": 1}}), ("GET", "/secret", {}), ("PUT", "/search", {})]
    *answers, scraped = sent(server_app(state), *searches, *wrong, ("GET", "/metrics", {}))
    assert [answer.status_code for answer in answers] == [200, 200, 422, 404, 405]
    text = scraped.text
    found = numbers(text)
    assert "secret" not in text
    assert found["retrieve_http_requests_total", "/search", "200"] == 2
    assert found["retrieve_http_requests_total", "/search", "422"] == 1
    assert found["retrieve_http_requests_total", "/search", "405"] == 1
    assert found["retrieve_http_requests_total", "other", "404"] == 1
    assert found["retrieve_http_requests_waiting",] == 0
    assert found["retrieve_http_request_duration_seconds_count", "/search"] == 4
    assert found["retrieve_stage_duration_seconds_count", "search"] == 2
    assert found["retrieve_stage_duration_seconds_bucket", "total", "+Inf"] == 2
    assert found["retrieve_generation_info", state.live.index.generation] == 1
    assert found["retrieve_generation_sequence",] == 1
    assert found["retrieve_generation_age_seconds",] >= 0
    assert ("retrieve_stage_duration_seconds_count", "open") not in found
    state.close()


def test_a_sync_of_the_server_counts(artifacts: Path) -> None:
    with started(artifacts, RETRIEVE_ENCODER__KIND="hashed") as server:
        task = server.post("/index", {"action": "sync"}, Prefer="wait=60")
        assert task.status == 200, task.data
        found = numbers(server.get("/metrics").data.decode())
    ((status, count),) = ((key[1], value) for key, value in found.items() if key[0] == "retrieve_syncs_total")
    assert (status in SYNCED, count) == (True, 1)
    assert found["retrieve_last_successful_sync_timestamp_seconds",] > 1.7e9


def test_buckets_of_a_histogram_add_up_and_hold_their_bounds() -> None:
    metrics = Metrics()
    for seconds in (0.0005, 0.001, 0.0011, 3.0, 99.0):
        metrics.answered("/search", 200, seconds)
    found = numbers(metrics.exposition())
    name = "retrieve_http_request_duration_seconds"
    bounds = ("0.001", "0.0025", "2.5", "5.0", "10.0", "+Inf")
    assert [found[f"{name}_bucket", "/search", bound] for bound in bounds] == [2, 3, 3, 4, 4, 5]
    assert found[f"{name}_count", "/search"] == 5
    assert found[f"{name}_sum", "/search"] == pytest.approx(102.0026)


WORKER = """
import sys
from retrieve_cli.server.http.metrics import Metrics
metrics = Metrics()
for _ in range(int(sys.argv[1])):
    metrics.began()
    metrics.answered("/search", 200, 0.01, under_way=True)
metrics.began()
metrics.sync("published")
for _ in sys.stdin:
    print(metrics.exposition(), end="\\n.\\n", flush=True)
"""


def scraped(process: "subprocess.Popen[str]") -> dict[tuple[str, ...], float]:
    """Return the numbers that a process gives; it has counted before."""
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("\n")
    process.stdin.flush()
    return numbers("".join(iter(process.stdout.readline, ".\n")))


def test_processes_add_up_and_one_that_is_killed_loses_no_count_and_leaves_no_request_under_way(tmp_path: Path) -> None:
    total, under_way = ("retrieve_http_requests_total", "/search", "200"), ("retrieve_http_requests_waiting",)
    environment, pipe = {**os.environ, SHARED: str(tmp_path)}, subprocess.PIPE
    processes = [
        subprocess.Popen([sys.executable, "-c", WORKER, count], stdin=pipe, stdout=pipe, text=True, env=environment)
        for count in ("10", "100")
    ]
    try:
        first, second = processes
        scraped(first)
        found = scraped(second)
        assert (found[total], found[under_way], found["retrieve_syncs_total", "published"]) == (110, 2, 2)
        assert found["retrieve_last_successful_sync_timestamp_seconds",] > 1.7e9
        assert found["retrieve_http_request_duration_seconds_count", "/search"] == 110
        first.kill()
        first.communicate()
        found = scraped(second)
        assert (found[total], found[under_way]) == (110, 1)
    finally:
        for process in processes:
            process.kill()
            process.communicate()
