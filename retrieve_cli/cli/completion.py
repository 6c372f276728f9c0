"""`retrieve completion`: scripts that let a shell complete commands, flags, ids and filters."""

from __future__ import annotations

from typing import Annotated

from retrieve_cli.cli.options import Shared, argument, shared
from retrieve_cli.errors import quoted

SCRIPTS = {
    "bash": """\
# Completion of retrieve for bash. In ~/.bashrc: eval "$(retrieve completion bash)"
_retrieve() {
    local candidate
    COMPREPLY=()
    while IFS= read -r candidate; do
        COMPREPLY+=("$candidate")
    done < <("$1" __complete bash "${COMP_LINE:0:COMP_POINT}" "$COMP_WORDBREAKS" 2>/dev/null)
    if [[ ${#COMPREPLY[@]} -gt 0 && ${COMPREPLY[0]} == *[=:.] ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -o bashdefault -o default -F _retrieve retrieve
""",
    "zsh": """\
#compdef retrieve
# Completion of retrieve for zsh. In ~/.zshrc, behind compinit: eval "$(retrieve completion zsh)"
_retrieve() {
    local -a candidates
    candidates=("${(@f)$("${words[1]}" __complete zsh "${(@Q)words[2,CURRENT]}" 2>/dev/null)}")
    candidates=(${candidates:#})
    if (( ! ${#candidates} )); then
        _files
        return
    fi
    compadd -S '' -- ${(M)candidates:#*[=:]}
    compadd -- ${candidates:#*[=:]}
}
compdef _retrieve retrieve
""",
    "fish": """\
# Completion of retrieve for fish. Once: retrieve completion fish > ~/.config/fish/completions/retrieve.fish
function __retrieve_candidates
    set -l words (commandline -opc) (commandline -ct | string unescape)
    set -l candidates (command $words[1] __complete fish $words[2..-1] 2>/dev/null)
    if test (count $candidates) -gt 0
        printf '%s\\n' $candidates
    else
        __fish_complete_path (commandline -ct)
    end
end
complete -c retrieve -f -a '(__retrieve_candidates)'
""",
}
"""The script of each shell; candidates come from completing.py."""


@shared("text", "json")
def completion(shell: Annotated[str, argument("bash|zsh|fish", "The shell.")], *, shared: Shared) -> None:
    """Print a script that completes commands, flags, their values, ids and filters in a shell.

    For bash, put into ~/.bashrc: eval "$(retrieve completion bash)"
    """
    if shell not in SCRIPTS:
        from retrieve_cli.config.values import unknown

        raise unknown(f"shell {quoted(shell)}", shell, SCRIPTS)
    if shared.format == "json":
        from retrieve_cli.output.formats import document

        print(document({"shell": shell, "script": SCRIPTS[shell]}))
    else:
        print(SCRIPTS[shell], end="")
