"""Known formats: their usual names, their extensions, and the bytes that identify them."""

from __future__ import annotations

from retrieve_cli.frozen import Frozen

Magic = tuple[tuple[int, bytes], ...]
"""Bytes and their offsets, all of which must match."""


class Format(Frozen):
    """A format and the marks by which it is recognized."""

    name: str
    extensions: tuple[str, ...] = ()
    magics: tuple[Magic, ...] = ()
    """Any of them identifies the format, regardless of the file's name."""
    starts: tuple[bytes, ...] = ()
    """First bytes, too short to identify it; a file of this name must have one of them, or a magic."""
    inside: tuple[str, ...] = ()
    """Formats that its files also have."""
    text: bool = False


def _at(offset: int, *values: bytes) -> tuple[Magic, ...]:
    return tuple(((offset, value),) for value in values)


HDF5 = b"\x89HDF\r\n\x1a\n"

FORMATS = (
    # Medical images
    Format("DICOM", (".dcm", ".dicom", ".ima"), _at(128, b"DICM"), (b"\x08\x00", b"\x02\x00\x00\x00")),
    Format("NIfTI", (".nii", ".hdr"), (*_at(344, b"n+1\0", b"ni1\0"), *_at(4, b"n+2\0\r\n\x1a\n", b"ni2\0\r\n\x1a\n"))),
    Format("Analyze", (".hdr",), starts=(b"\x5c\x01\x00\x00", b"\x00\x00\x01\x5c")),
    Format("NRRD", (".nrrd", ".nhdr"), _at(0, b"NRRD000")),
    Format("MHA", (".mha", ".mhd"), _at(0, b"ObjectType = Image"), (b"ObjectType", b"NDims", b"Comment", b"Name")),
    Format("MGZ", (".mgz", ".mgh"), starts=(b"\x00\x00\x00\x01",)),
    Format("MINC", (".mnc",), inside=("HDF5", "NetCDF")),
    Format("GIfTI", (".gii",), starts=(b"<?xml", b"<GIFTI"), text=True),
    Format("MIF", (".mif",), _at(0, b"mrtrix image")),
    Format("TCK", (".tck",), _at(0, b"mrtrix tracks")),
    Format("TRK", (".trk",), _at(0, b"TRACK\0")),
    Format("EDF", (".edf",), starts=(b"0       ",)),
    # Microscopy
    Format("TIFF", (".tif", ".tiff", ".btf"), _at(0, b"II*\0", b"MM\0*", b"II+\0", b"MM\0+")),
    Format("OME-TIFF", (".ome.tif", ".ome.tiff", ".ome.btf"), inside=("TIFF",)),
    Format("SVS", (".svs",), inside=("TIFF",)),
    Format("NDPI", (".ndpi",), inside=("TIFF",)),
    Format("LSM", (".lsm",), inside=("TIFF",)),
    Format("CZI", (".czi",), _at(0, b"ZISRAWFILE")),
    Format("ND2", (".nd2",), _at(0, b"\xda\xce\xbe\x0a")),
    Format("LIF", (".lif",), (((0, b"\x70\0\0\0"), (8, b"\x2a")),)),
    Format("MRC", (".mrc", ".mrcs", ".map", ".rec"), _at(208, b"MAP ")),
    Format("IMS", (".ims",), inside=("HDF5",)),
    # Pictures and video
    Format("PNG", (".png",), _at(0, b"\x89PNG\r\n\x1a\n")),
    Format("JPEG", (".jpg", ".jpeg", ".jpe"), _at(0, b"\xff\xd8\xff")),
    Format("JPEG2000", (".jp2", ".j2k"), _at(0, b"\0\0\0\x0cjP  \r\n\x87\n", b"\xff\x4f\xff\x51")),
    Format("GIF", (".gif",), _at(0, b"GIF87a", b"GIF89a")),
    Format("BMP", (".bmp",), starts=(b"BM",)),
    Format("WebP", (".webp",), (((0, b"RIFF"), (8, b"WEBP")),)),
    Format("AVI", (".avi",), (((0, b"RIFF"), (8, b"AVI ")),)),
    Format("MP4", (".mp4", ".m4v", ".mov"), _at(4, b"ftyp")),
    # Arrays, tables and documents
    Format("HDF5", (".h5", ".hdf5", ".hdf", ".he5"), _at(0, HDF5) + _at(512, HDF5)),
    Format("H5AD", (".h5ad",), inside=("HDF5",)),
    Format("NWB", (".nwb",), inside=("HDF5",)),
    Format("NetCDF", (".nc",), _at(0, b"CDF\x01", b"CDF\x02", b"CDF\x05"), inside=("HDF5",)),
    Format("MAT", (".mat",), _at(0, b"MATLAB 5.0 MAT-file", b"MATLAB 7.3 MAT-file"), inside=("HDF5",)),
    Format("Parquet", (".parquet",), _at(0, b"PAR1")),
    Format("NumPy", (".npy",), _at(0, b"\x93NUMPY")),
    Format("NumPy", (".npz",), inside=("ZIP",)),
    Format("SQLite", (".sqlite", ".db"), _at(0, b"SQLite format 3\0")),
    Format("PDF", (".pdf",), _at(0, b"%PDF-")),
    Format("ZIP", (".zip",), _at(0, b"PK\x03\x04", b"PK\x05\x06")),
    Format("Zarr", (".zarr.zip",), inside=("ZIP",)),
    Format("XLSX", (".xlsx",), inside=("ZIP",)),
    Format("DOCX", (".docx", ".docm", ".dotx", ".dotm"), inside=("ZIP",)),
    Format("PPTX", (".pptx", ".pptm", ".ppsx", ".potx"), inside=("ZIP",)),
    Format("ODT", (".odt", ".ott"), inside=("ZIP",)),
    Format("EPUB", (".epub",), inside=("ZIP",)),
    Format("EML", (".eml",), text=True),
    Format("TAR", (".tar", ".tgz"), _at(257, b"ustar")),
    Format("CSV", (".csv",), text=True),
    Format("TSV", (".tsv",), text=True),
    Format("JSON", (".json", ".geojson"), starts=(b"{", b"["), text=True),
    Format("XML", (".xml", ".nxml"), starts=(b"<",), text=True),
    Format("YAML", (".yaml", ".yml"), text=True),
    Format("TXT", (".txt",), text=True),
    Format("Markdown", (".md", ".markdown"), text=True),
    Format("HTML", (".html", ".htm", ".xhtml"), text=True),
    Format("reStructuredText", (".rst",), text=True),
    Format("Jupyter", (".ipynb",), starts=(b"{",), text=True),
    # Sequences and shapes
    Format("BAM", (".bam",), _at(0, b"BAM\x01")),
    Format("SAM", (".sam",), starts=(b"@",), text=True),
    Format("CRAM", (".cram",), _at(0, b"CRAM")),
    Format("VCF", (".vcf",), _at(0, b"##fileformat=VCF"), text=True),
    Format("BCF", (".bcf",), _at(0, b"BCF\x02")),
    Format("FASTQ", (".fastq", ".fq"), starts=(b"@",), text=True),
    Format("FASTA", (".fasta", ".fa", ".fna"), starts=(b">",), text=True),
    Format("SWC", (".swc",), text=True),
    Format("STAR", (".star",), text=True),
    Format("STL", (".stl",)),
    Format("PLY", (".ply",), _at(0, b"ply\n", b"ply\r\n")),
    Format("VTK", (".vtk",), _at(0, b"# vtk DataFile")),
)
GZIP = Format("GZIP", (".gz",))
FOLDERS = {".zarr": "Zarr", ".n5": "N5"}
"""Formats of folders by extension."""
BY_EXTENSION: dict[str, tuple[Format, ...]] = {}
for _known in FORMATS:
    for _extension in _known.extensions:
        BY_EXTENSION[_extension] = (*BY_EXTENSION.get(_extension, ()), _known)
