"""`retrieve inspect page`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from retrieve_cli.cli.options import Shared, shared


@shared("text", "json")
def page(
    file: Annotated[Path, typer.Argument(metavar="FILE", help="A PDF file, indexed or not.")],
    name: Annotated[str, typer.Argument(metavar="PAGE", help="Its number, from 1, or its printed label: 12, viii.")],
    label: Annotated[bool, typer.Option("--label", help="PAGE is a printed label, even if it is a number.")] = False,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Draw the page and its blocks, as .png.")
    ] = None,
    *,
    shared: Shared,
) -> None:
    """Show the blocks of a page in reading order, as its parser sees them: kind, box, first words."""
    from retrieve_cli.cli.picturing import write_picture
    from retrieve_cli.operations.pages import page_lines, page_view
    from retrieve_cli.output import formats

    settings = shared.settings()
    view = page_view(file, name, settings, label=label)
    if picture is not None:
        write_picture(picture, view.picture(settings))
        shared.talk.say(f"{picture}: page {view.values['page']}")
    if shared.format == "json":
        print(formats.dump(view.values))
    else:
        print(*page_lines(view.values), sep="\n")
