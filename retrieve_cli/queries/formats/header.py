"""What a reader finds in a header, and how a reader says that there is none."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Header:
    """What the header of a file says of the image, and nothing of the person."""

    format: str | None = None
    modality: str | None = None
    depth: int | None = None
    """Planes of a volume, 1 for a picture; None where the file holds no image or does not say."""
    moments: int = 1
    """Volumes or pictures that follow each other in time."""
    lone_slice: bool = False
    """True if the file is one picture, and the series that it belongs to is likely a volume."""
    anatomy: str | None = None
    series: str | None = None
    """What tells one DICOM series from another; compared, never shown."""
    complaints: tuple[str, ...] = ()
    """What is wrong with the file, as ends of a sentence that begins with its name."""

    @property
    def dimensionality(self) -> str | None:
        """2D, 3D or 4D, as imaging tools count: a picture that moves is 2D, a volume that changes is 4D."""
        if self.depth is None:
            return None
        if self.depth == 1:
            return "2D"
        return "4D" if self.moments > 1 else "3D"

    @property
    def likely(self) -> str | None:
        """The dimensionality that the data is likely to have: that of its series, if the file is one slice of it."""
        if self.lone_slice:
            return "4D" if self.moments > 1 else "3D"
        return self.dimensionality


class Unreadable(Exception):
    """A file is not what it says, with the end of a sentence that begins with its name."""
