"""Where an MHD, MHA or NRRD header says that its voxels are, and whether they are intact.

ITK reads whatever file a header names, and it goes on after a wrong checksum or a short file. So
the place, the length and the checksum of the voxels are verified here.
"""

import bz2
import gzip
import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import IO, NamedTuple

from segpl.data.formats.limits import check_compressed_size
from segpl.foundation.errors import UserError

_LONGEST_HEADER = 2**20
_LONGEST_NRRD_FIELD = 500
_MOST_FILES = 10_000
_BLOCK = 2**20
_ZLIB_OR_GZIP = 47
"""zlib's code for data that start with either header, which is what MetaIO accepts."""
_NRRD_COMPRESSIONS = {"raw": "", "gzip": "gzip", "gz": "gzip", "bzip2": "bzip2", "bz2": "bzip2"}
_YES = ("T", "t", "1")
"""First letters of a true value in an MHD header."""


class Header(NamedTuple):
    """The text in front of the voxels."""

    entries: dict[str, str]
    """By their names in lower case, without spaces."""
    listed_files: list[str]
    """The lines after a data file called LIST."""
    length: int
    """In bytes."""


class StoredVoxels(NamedTuple):
    """The files that hold the voxels of an image."""

    files: list[Path]
    """In the order of the voxels."""
    offset: int
    """Bytes in front of the voxels."""
    compression: str
    """zlib, gzip, bzip2, or empty for none."""
    is_plain: bool
    """Whether the files hold exactly the voxels: no text, and nothing that is skipped."""


def stored_voxels(file: Path) -> StoredVoxels:
    """What a header says about its voxels; an error if they are outside its own folder."""
    is_meta_image = file.suffix.lower() in (".mha", ".mhd")
    voxels = _of_meta_image(file) if is_meta_image else _of_nrrd(file)
    for voxel_file in voxels.files:
        _check_is_inside_the_folder(voxel_file, file)
    return voxels


def verify(voxels: StoredVoxels, expected_bytes: int) -> None:
    """Raise an error unless the files hold exactly this many bytes of voxels and are intact."""
    for file in voxels.files:
        if not file.is_file():
            raise FileNotFoundError(f"{file.name}, which should hold its voxels, is missing")
    if not voxels.is_plain:
        return
    if not voxels.compression:
        size = sum(file.stat().st_size for file in voxels.files)
        _compare(size - voxels.offset, expected_bytes)
    elif len(voxels.files) == 1:
        _verify_compressed(voxels, expected_bytes)


def _of_meta_image(file: Path) -> StoredVoxels:
    header = _read_header(file, separator="=", data_key="elementdatafile", ends_with="LOCAL")
    entries = header.entries
    data_file = entries.get("elementdatafile", "")
    is_local = data_file == "LOCAL"
    is_compressed = entries.get("compresseddata", "").startswith(_YES)
    is_binary = entries.get("binarydata", "True").startswith(_YES)
    return StoredVoxels(
        files=[file] if is_local else _named_files(file, data_file, header.listed_files),
        offset=header.length if is_local else 0,
        compression="zlib" if is_compressed else "",
        is_plain=is_binary and "headersize" not in entries,
    )


def _of_nrrd(file: Path) -> StoredVoxels:
    header = _read_header(file, separator=":", data_key="datafile", ends_with=None)
    entries = header.entries
    data_file = entries.get("datafile", "")
    encoding = entries.get("encoding", "").lower()
    skips_something = "lineskip" in entries or "byteskip" in entries
    return StoredVoxels(
        files=_named_files(file, data_file, header.listed_files) if data_file else [file],
        offset=0 if data_file else header.length,
        compression=_NRRD_COMPRESSIONS.get(encoding, ""),
        is_plain=encoding in _NRRD_COMPRESSIONS and not skips_something,
    )


def _read_header(file: Path, separator: str, data_key: str, ends_with: str | None) -> Header:
    """The header of a file: up to the data file called `ends_with`, or else to an empty line."""
    entries: dict[str, str] = {}
    listed_files: list[str] = []
    length = 0
    with file.open("rb") as content:
        for line in _lines(content):
            length += len(line)
            text = line.decode("utf-8", errors="surrogateescape").strip()
            if not text and ends_with is None:
                break
            if entries.get(data_key, "").startswith("LIST"):
                listed_files.append(text)
                continue
            key, _, value = text.partition(separator)
            _check_length(text, separator)
            key = key.lower().replace(" ", "")
            entries[key] = value.strip()
            if key == data_key and entries[key] == ends_with:
                break
    return Header(entries, [name for name in listed_files if name], length)


def _check_length(field: str, separator: str) -> None:
    """Raise an error for a long field of NRRD, which would crash ITK and this program with it.

    Comments and the user's own entries (key:=value) may be long.
    """
    is_long = len(field) > _LONGEST_NRRD_FIELD
    after_colon = field.partition(":")[2]
    is_free = field.startswith("#") or after_colon.startswith("=")
    if separator == ":" and is_long and not is_free:
        raise ValueError("its header has a field that is too long")


def _lines(content: IO[bytes]) -> Iterator[bytes]:
    """The lines of a header; an error if it does not end."""
    read = 0
    while line := content.readline(_LONGEST_HEADER):
        read += len(line)
        if read > _LONGEST_HEADER:
            raise ValueError("its header does not end")
        yield line


def _named_files(file: Path, name: str, listed: list[str]) -> list[Path]:
    """The files that a header names: one, a list of them, or a pattern and its numbers."""
    pattern = re.fullmatch(r"(\S*%\d*d\S*)\s+(\d{1,6})\s+(\d{1,6})(?:\s+(\d{1,6}))?.*", name)
    if name.startswith("LIST"):
        names = listed[:_MOST_FILES]
    elif pattern:
        first, last, step = (int(number or 1) for number in pattern.groups()[1:])
        numbers = range(first, last + 1, step or 1)[:_MOST_FILES]
        names = [pattern[1] % number for number in numbers]
    else:
        names = [name]
    if not any(names):
        raise ValueError("its header names no file with voxels")
    return [file.parent / single for single in names]


def _check_is_inside_the_folder(voxel_file: Path, header: Path) -> None:
    """Raise an error if a header reaches for a file elsewhere, such as ../key or /etc/passwd.

    Symbolic links in the folder are the user's own, and are followed.
    """
    folder = os.path.abspath(header.parent)  # noqa: PTH100 (resolve() would follow links)
    target = os.path.abspath(voxel_file)  # noqa: PTH100
    if os.path.commonpath([folder, target]) != folder:
        raise UserError(
            f"{header} takes its voxels from {voxel_file}, which is outside its own folder: "
            "put both into one folder and correct the header."
        )


def _verify_compressed(voxels: StoredVoxels, expected_bytes: int) -> None:
    file = voxels.files[0]
    stored_bytes = file.stat().st_size - voxels.offset
    if voxels.compression != "bzip2":
        check_compressed_size(expected_bytes, stored_bytes)
    with file.open("rb") as content:
        content.seek(voxels.offset)
        if voxels.compression == "zlib":
            length = _zlib_length(content, expected_bytes)
        elif voxels.compression == "gzip":
            length = _stream_length(gzip.GzipFile(fileobj=content), expected_bytes)
        else:
            length = _stream_length(bz2.BZ2File(content), expected_bytes)
    _compare(length, expected_bytes)


def _stream_length(stream: "gzip.GzipFile | bz2.BZ2File", limit: int) -> int:
    """The decompressed length, or a number above `limit` where it is longer."""
    length = 0
    while length <= limit and (block := stream.read(_BLOCK)):
        length += len(block)
    return length


def _zlib_length(content: IO[bytes], limit: int) -> int:
    """As `_stream_length`; zlib has no stream that verifies the checksum at the end."""
    decompressor = zlib.decompressobj(_ZLIB_OR_GZIP)
    length = 0
    compressed = content.read(_BLOCK)
    while compressed and length <= limit and not decompressor.eof:
        length += len(decompressor.decompress(compressed, _BLOCK))
        compressed = decompressor.unconsumed_tail or content.read(_BLOCK)
    if length <= limit and not decompressor.eof:
        raise EOFError("its compressed voxels end too early")
    return length


def _compare(length: int, expected: int) -> None:
    if length < expected:
        raise EOFError("its header claims more voxels than the file holds")
    if length > expected:
        raise ValueError("the file holds more voxels than its header claims")
