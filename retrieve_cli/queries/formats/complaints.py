"""What imaging libraries print and log while they read, kept from the terminal."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

LOGGERS = ("pydicom", "tifffile", "nibabel.global", "PIL.Image")


@contextmanager
def overheard() -> Iterator[list[str]]:
    """Silence; once it is over, the list has an entry for each complaint of a library.

    The words of a complaint are dropped: they may quote the header, and so the name of a person.
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
    # What a library says of its own code is no matter of the file.
    heard += [each.category.__name__ for each in caught if issubclass(each.category, (UserWarning, RuntimeWarning))]
