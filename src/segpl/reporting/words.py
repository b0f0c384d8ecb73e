"""Numbers in sentences."""


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A count with its noun: 1 test subject, 2 test subjects; `nouns` where the plural takes more than an s."""
    return f"{count} {noun if count == 1 else nouns or f'{noun}s'}"


def verb(count: int, singular: str, several: str) -> str:
    """The form of a verb that goes with a count: 1 run has, 2 runs have."""
    return singular if count == 1 else several
