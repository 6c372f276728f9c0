"""Warnings and logs of imaging libraries, kept from the terminal."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

LOGGERS = ("pydicom", "tifffile", "nibabel.global", "PIL.Image")


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Silence imaging libraries; afterwards the list has an entry for each of their warnings.

    The text of a warning is dropped: it may quote the header, and so the name of a person.
    """
    heard: list[str] = []

    def keep(record: logging.LogRecord) -> bool:
        if record.levelno >= logging.WARNING:
            heard.append(record.name)
        return False

    loggers = [logging.getLogger(name) for name in LOGGERS]
    for logger in loggers:
        logger.addFilter(keep)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield heard
    finally:
        for logger in loggers:
            logger.removeFilter(keep)
    # Warnings about a library's own code do not concern the file.
    heard += [one.category.__name__ for one in caught if issubclass(one.category, (UserWarning, RuntimeWarning))]
