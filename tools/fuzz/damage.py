"""Ways to damage a file, each drawn from a generator: the same seed damages it alike."""

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np

NUMBERS = (0, 1, 2, 127, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**40, 2**63 - 1, 2**64 - 1)
WORDS = (b"", b"-1", b"0", b"1e999", b"NaN", b"null", b'""', b"[]", b"{}", b"true", b"9" * 30, b'"\\u0000"', b"[" * 9)
Damage = Callable[[bytearray, np.random.Generator], bytearray]


def _place(data: bytearray, rng: np.random.Generator, length: int = 1) -> int:
    """Half of the time near the beginning, where headers lie."""
    end = max(1, len(data) - length)
    return int(rng.integers(min(end, 1500) if rng.random() < 0.5 else end))


def bits(data: bytearray, rng: np.random.Generator) -> bytearray:
    for _ in range(rng.integers(1, 9)):
        data[_place(data, rng)] ^= 1 << int(rng.integers(8))
    return data


def noise(data: bytearray, rng: np.random.Generator) -> bytearray:
    length = int(rng.integers(1, 33))
    start = _place(data, rng, length)
    data[start : start + length] = rng.bytes(min(length, len(data) - start))
    return data


def ones(data: bytearray, rng: np.random.Generator) -> bytearray:
    length = int(rng.integers(1, 257))
    start = _place(data, rng, length)
    data[start : start + length] = b"\xff" * min(length, len(data) - start)
    return data


def number(data: bytearray, rng: np.random.Generator) -> bytearray:
    """A telling number in place of 1, 2, 4 or 8 bytes."""
    size = int(rng.choice([1, 2, 4, 8]))
    start = _place(data, rng, size) // size * size
    value = int(rng.choice(np.array(NUMBERS, dtype=np.uint64))) % (1 << 8 * size)
    data[start : start + size] = value.to_bytes(size, "little")
    return data


def cut(data: bytearray, rng: np.random.Generator) -> bytearray:
    return data[: int(rng.integers(len(data)))]


def lose(data: bytearray, rng: np.random.Generator) -> bytearray:
    length = int(rng.integers(1, 65))
    start = _place(data, rng, length)
    del data[start : start + length]
    return data


def insert(data: bytearray, rng: np.random.Generator) -> bytearray:
    start = _place(data, rng)
    data[start:start] = rng.bytes(int(rng.integers(1, 65)))
    return data


def move(data: bytearray, rng: np.random.Generator) -> bytearray:
    """One part of the file over another, as a disk does that writes to the wrong place."""
    length = int(rng.integers(8, 513))
    source, target = _place(data, rng, length), _place(data, rng, length)
    part = data[source : source + length][: len(data) - target]
    data[target : target + len(part)] = part
    return data


def text(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Another number, word or bracket in a text; what holds none has bits flipped."""
    found = list(re.finditer(rb'\d+|"[^"\n]*"|[\[\]{},:]', bytes(data)))
    if not found or b"\0" in data:
        return bits(data, rng)
    one = found[int(rng.integers(len(found)))]
    data[one.start() : one.end()] = WORDS[int(rng.integers(len(WORDS)))]
    return data


def value(data: bytearray, rng: np.random.Generator) -> bytearray:
    """Another value in place of one, often one of the same text, which so remains readable: what it says is wrong."""
    found = list(re.finditer(rb'"[^"\n]*"|[\w.+-]+', bytes(data)))
    if not found:
        return bits(data, rng)
    one, other = (found[int(rng.integers(len(found)))] for _ in range(2))
    new = other[0] if rng.random() < 0.5 else WORDS[int(rng.integers(len(WORDS)))]
    data[one.start() : one.end()] = new
    return data


KINDS: dict[str, Damage] = {one.__name__: one for one in (bits, noise, ones, number, cut, lose, insert, move, text)}
REMOVED = "removed"  # the file


def damage(root: Path, rng: np.random.Generator) -> str:
    """Damage one of the files of a folder, and say which and how."""
    files = sorted(path for path in root.rglob("*") if path.is_file() and path.stat().st_size)
    file = files[int(rng.integers(len(files)))]
    data = file.read_bytes()
    if len(files) > 1 and rng.random() < 0.03:
        kind = REMOVED
        file.unlink()
    elif _is_text(data) and rng.random() < 0.5:  # other damage seldom leaves a text readable
        kind = value.__name__
        file.write_bytes(value(bytearray(data), rng))
    else:
        kind = str(rng.choice(list(KINDS)))
        file.write_bytes(KINDS[kind](bytearray(data), rng))
    return f"{kind} {file.relative_to(root)}"


def _is_text(data: bytes) -> bool:
    try:
        return "\0" not in data.decode()
    except UnicodeDecodeError:
        return False
