"""Damage to files, drawn from a seed."""

import re

import numpy as np

HOSTILE_VALUES = [
    b"0",
    b"-1",
    b"1e38",
    b"1e999",
    b"99999999999",
    b"18446744073709551616",
    b"1" + b"0" * 5000,
    b".nan",
    b"NaN",
    b"Infinity",
    b"null",
    b"true",
    b"[]",
    b"{}",
    b"''",
    b"[" * 5000,
    b"*a",
    b"&a [*a]",
    b"/etc/passwd",
    b"../../x",
    b"\xff\xfe",
    b"\x00",
    b"=1+1",
    b"[/x]",
]
WORD = re.compile(rb"[A-Za-z0-9_.+-]+")


def flip_bits(content: bytes, rng: np.random.Generator) -> bytes:
    """Flip one to eight bits."""
    damaged = bytearray(content)
    for _ in range(int(rng.integers(1, 9))):
        position = int(rng.integers(len(damaged)))
        damaged[position] ^= 1 << int(rng.integers(8))
    return bytes(damaged)


def cut_end(content: bytes, rng: np.random.Generator) -> bytes:
    """Keep a part from the start."""
    return content[: int(rng.integers(len(content)))]


def cut_middle(content: bytes, rng: np.random.Generator) -> bytes:
    """Remove a part."""
    start, stop = sorted(rng.integers(len(content), size=2).tolist())
    return content[:start] + content[stop:]


def overwrite(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace up to 64 bytes by zeros, by ones or by anything."""
    start = int(rng.integers(len(content)))
    length = min(int(rng.integers(1, 65)), len(content) - start)
    fillings = [b"\x00" * length, b"\xff" * length, rng.bytes(length)]
    filling = fillings[int(rng.integers(len(fillings)))]
    return content[:start] + filling + content[start + length :]


def damage_header(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace one to four bytes of the first 400, where most formats have their header."""
    damaged = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        position = int(rng.integers(min(len(damaged), 400)))
        damaged[position] = int(rng.choice([0, 1, 127, 128, 255, int(rng.integers(256))]))
    return bytes(damaged)


def replace_word(content: bytes, rng: np.random.Generator) -> bytes:
    """Replace a word or number in the first 4,000 bytes by a hostile one."""
    words = list(WORD.finditer(content[:4000]))
    if not words:
        return flip_bits(content, rng)
    word = words[int(rng.integers(len(words)))]
    value = HOSTILE_VALUES[int(rng.integers(len(HOSTILE_VALUES)))]
    return content[: word.start()] + value + content[word.end() :]


MUTATIONS = (flip_bits, cut_end, cut_middle, overwrite, damage_header, replace_word)


def mutant(content: bytes, rng: np.random.Generator, is_text: bool) -> bytes:
    """The content with one kind of damage; text mostly has a value replaced."""
    if is_text and rng.random() < 0.6:
        return replace_word(content, rng)
    mutation = MUTATIONS[int(rng.integers(len(MUTATIONS)))]
    return mutation(content, rng)
