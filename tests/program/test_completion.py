"""Completion of the command line in a shell: by Typer's own scripts."""

import pytest
from samples import Program


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("retrieve que", ["query"]),
        ("retrieve inspect hist", ["history"]),
        ("retrieve query lungs --stri", ["--strict-fresh"]),
        ("retrieve unheard of", []),
    ],
)
def test_a_shell_completes_commands_and_flags(
    retrieve: Program, monkeypatch: pytest.MonkeyPatch, line: str, words: list[str]
) -> None:
    monkeypatch.setenv("_RETRIEVE_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", line)
    monkeypatch.setenv("COMP_CWORD", str(line.count(" ")))
    done = retrieve()
    assert (done.code, done.out.split(), done.err) == (0, words, "")


def test_the_script_of_a_shell_is_shown(retrieve: Program, monkeypatch: pytest.MonkeyPatch) -> None:
    # Typer asks the processes above for the name of the shell; tests may run without one.
    monkeypatch.setenv("_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION", "1")
    with pytest.raises(SystemExit):
        pytest.fail(str(retrieve("--show-completion", "bash")))
