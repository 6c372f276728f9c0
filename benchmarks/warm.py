"""Time of a whole `retrieve query` answered by the warm process, beside the same command that answers by itself."""

from benchmarks.process import RETRIEVE, in_turn, median, run
from benchmarks.speed import ARTIFACTS, QUESTION, line

_ROUNDS = 15
_LIMIT = 0.25
"""Most of the time of a command that answers by itself."""


def command() -> bool:
    """Both commands in turn, on the index of `speed.build`."""
    place = ("--artifacts", str(ARTIFACTS))
    query = (*RETRIEVE, "query", QUESTION, *place)
    run((*RETRIEVE, "serve", "--background", "--idle", "5m", *place))
    try:
        warm, cold, ratio = in_turn(query, (*query, "--server", "never"), rounds=_ROUNDS)
    finally:
        run((*RETRIEVE, "serve", "--stop", *place))
    same = {ran.output for ran in (*warm, *cold)} == {cold[0].output}
    figure = f"{1000 * median(warm):.0f} ms, {1000 * median(cold):.0f} ms by itself, {1 / ratio:.2f} of it"
    return line("query by the warm process", figure, f"≤ {_LIMIT}, same bytes", same and 1 / ratio <= _LIMIT)
