"""`python -m retrieve_cli` is `retrieve`."""

from retrieve_cli.cli.main import run

run()
