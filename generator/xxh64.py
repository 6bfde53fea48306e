"""XXH64 with seed 0, the checksum of a zstd frame (xxHash specification, section XXH64)."""

import struct

P1, P2, P3, P4, P5 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9, 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5
MASK = 2**64 - 1


def _turn(v, bits):
    return (v << bits | v >> (64 - bits)) & MASK


def _round(lane, value):
    return _turn((lane + value * P2) & MASK, 31) * P1 & MASK


def xxh64(data):
    """The hash of some bytes, as an integer."""
    whole = len(data) - len(data) % 32
    if len(data) >= 32:
        a, b, c, d = (P1 + P2) & MASK, P2, 0, -P1 & MASK
        for w, x, y, z in struct.iter_unpack("<4Q", data[:whole]):
            a, b, c, d = _round(a, w), _round(b, x), _round(c, y), _round(d, z)
        h = (_turn(a, 1) + _turn(b, 7) + _turn(c, 12) + _turn(d, 18)) & MASK
        for lane in (a, b, c, d):
            h = ((h ^ _round(0, lane)) * P1 + P4) & MASK
    else:
        h = P5
    h = (h + len(data)) & MASK
    rest = data[whole:]
    while len(rest) >= 8:
        h = (_turn(h ^ _round(0, struct.unpack_from("<Q", rest)[0]), 27) * P1 + P4) & MASK
        rest = rest[8:]
    if len(rest) >= 4:
        h = (_turn(h ^ struct.unpack_from("<I", rest)[0] * P1 & MASK, 23) * P2 + P3) & MASK
        rest = rest[4:]
    for byte in rest:
        h = _turn(h ^ byte * P5 & MASK, 11) * P1 & MASK
    h = (h ^ h >> 33) * P2 & MASK
    h = (h ^ h >> 29) * P3 & MASK
    return h ^ h >> 32
