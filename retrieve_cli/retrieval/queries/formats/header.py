"""Facts from a header, and the error for a file without one."""

from __future__ import annotations

from retrieve_cli.frozen import Frozen


class Header(Frozen):
    """Facts about an image from the header of its file, and none about a person."""

    format: str | None = None
    modality: str | None = None
    depth: int | None = None
    """Planes of a volume, 1 for a picture; None if the file is not an image or its header does not have them."""
    moments: int = 1
    """Volumes or pictures that follow each other in time."""
    lone_slice: bool = False
    """True if the file is one picture, and the series that it belongs to is likely a volume."""
    anatomy: str | None = None
    series: str | None = None
    """Identity of a DICOM series; compared, never shown."""
    complaints: tuple[str, ...] = ()
    """Problems of the file, as ends of a sentence that begins with its name."""

    @property
    def dimensionality(self) -> str | None:
        """2D, 3D or 4D, as imaging tools count: a moving picture is 2D, a changing volume is 4D."""
        if self.depth is None:
            return None
        if self.depth == 1:
            return "2D"
        return "4D" if self.moments > 1 else "3D"

    @property
    def likely(self) -> str | None:
        """The likely dimensionality of the data: the dimensionality of its series, if the file is one slice of it."""
        if self.lone_slice:
            return "4D" if self.moments > 1 else "3D"
        return self.dimensionality


class UnreadableHeader(Exception):
    """A file cannot be read as its format; the message is the end of a sentence that begins with its name."""
