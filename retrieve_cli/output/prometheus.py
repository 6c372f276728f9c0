"""Numbers in Prometheus' text format, version 0.0.4: for a scrape, or a file of the node exporter's textfile collector.

https://prometheus.io/docs/instrumenting/exposition_formats/
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import isfinite, isnan
from typing import Literal, NamedTuple

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class MetricSample(NamedTuple):
    """A number; its name is the metric's with `suffix` behind it."""

    value: float
    labels: Mapping[str, str] = {}
    suffix: str = ""


class Metric(NamedTuple):
    """Numbers of one name. The name of a counter ends in `_total`, the name of a time in its unit, `_seconds`."""

    name: str
    kind: Literal["counter", "gauge", "summary"]
    help: str
    samples: Sequence[MetricSample]


def _whole(value: float) -> float:
    return int(value) if abs(value) < 2**53 and value == int(value) else value


def exposition(metrics: Iterable[Metric]) -> str:
    """The text of all metrics that have samples."""
    lines: list[str] = []
    for name, kind, help_, samples in metrics:
        if samples:
            lines += [f"# HELP {name} {_escaped(help_)}", f"# TYPE {name} {kind}"]
            lines += [f"{name}{each.suffix}{_labels(each.labels)} {_value(each.value)}" for each in samples]
    return "".join(line + "\n" for line in lines)


def _labels(labels: Mapping[str, str]) -> str:
    pairs = (f'{name}="{_escaped(value).replace(chr(34), chr(92) + chr(34))}"' for name, value in labels.items())
    return f"{{{','.join(pairs)}}}" if labels else ""


def _value(value: float) -> str:
    if isfinite(value):
        return repr(_whole(value))
    return "NaN" if isnan(value) else f"{'+' if value > 0 else '-'}Inf"


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n")
