"""The version of the program and the folder of its code: the ground, which imports nothing of the package."""

import os

__version__ = "0.1.0"
FOLDER = os.path.dirname(os.path.abspath(__file__))  # noqa: PTH100, PTH120  read before pathlib is loaded
"""Absolute path of `retrieve_cli/`."""
