"""Kernel packs: one file with a manifest and the sources. runtime/pack.c reads it.

8 bytes "gnfpack\\n", the format version and a zero (32 bits each, little-endian), then one zstd frame with a content
checksum. Its content: the manifest's length (64 bits, little-endian), the manifest (JSON), the parts. A source is a
list of parts, so what sources share is stored once. The frame is written in raw blocks: Python's standard library has
no zstd, and any decoder reads them. The same inputs give the same bytes: no path, time or machine name.
"""

import json
import os
import re
import struct
import tempfile
from pathlib import Path

from generator import VERSION
from generator.xxh64 import xxh64

MAGIC, FORMAT = b"gnfpack\n", 1
BLOCK = 1 << 17  # zstd's largest block


class PackWriter:
    """Collects entries; parts that are equal are stored once."""

    def __init__(self):
        self.index, self.blob, self.ranges, self.entries = {}, bytearray(), [], []

    def source(self, text):
        """The parts of a source: its functions one by one, since kernels of one template differ in few of them."""
        return [self.part(piece) for piece in re.split(r"(?<=\n}\n)", text) if piece]

    def part(self, text):
        data = text.encode("ascii")
        if data not in self.index:
            self.index[data] = len(self.ranges)
            self.ranges.append([len(self.blob), len(data)])
            self.blob += data
        return self.index[data]

    def add(self, key, generic, variants):
        """`variants` are manifest rows; a key already there is left as it is."""
        if all(e["key"] != key or e["generic"] != generic for e in self.entries):
            self.entries.append({"key": key, "generic": generic, "variants": variants})

    def bytes(self):
        manifest = {"format": FORMAT, "generator": VERSION, "parts": self.ranges, "entries": self.entries}
        text = json.dumps(manifest, separators=(",", ":"), sort_keys=True).encode("ascii")
        return MAGIC + struct.pack("<II", FORMAT, 0) + zstd_frame(struct.pack("<Q", len(text)) + text + bytes(self.blob))


def zstd_frame(content):
    """A zstd frame (RFC 8878) of raw blocks, with content size and checksum."""
    frame = bytearray(struct.pack("<IBQ", 0xFD2FB528, 0b11100100, len(content)))  # 8-byte size, single segment, checksum
    for at in range(0, len(content), BLOCK) or [0]:
        block = content[at : at + BLOCK]
        last = at + BLOCK >= len(content)
        frame += struct.pack("<I", len(block) << 3 | last)[:3] + block
    return bytes(frame) + struct.pack("<I", xxh64(content) & 0xFFFFFFFF)


def write(path, data):
    """Writes a file whole or not at all."""
    path = Path(path)
    handle, beside = tempfile.mkstemp(prefix=path.name + ".", dir=path.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(beside, 0o644)
        os.replace(beside, path)
    except BaseException:
        os.unlink(beside)
        raise
