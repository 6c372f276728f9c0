"""A run of the program in a forked process, with the packages of a folder."""

import os
import sys
from collections.abc import Sequence

from retrieve_cli.cli.main import main


def run(arguments: Sequence[str]) -> int:
    """Run the program with the packages in the folder $PACKAGES; its exit code."""
    sys.dont_write_bytecode = True  # a test may write the same file twice in a second
    sys.path.insert(0, os.environ["PACKAGES"])
    return main(list(arguments))
