"""What the name of a file says: case, channel, and whether it is a label."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from segpl.data.formats import stem

LABEL_WORDS = (
    "segmentations?",
    "segs?",
    "masks?",
    "labels?",
    "lbls?",
    "gts?",
    "ground[_-]?truths?",
    "annotations?",
    "manual",
    "rois?",
)
IMAGE_WORDS = ("images?", "imgs?", "im", "volumes?", "vols?", "scans?", "orig")
CHANNEL_WORDS = (
    "t1",
    "t1n",
    "t1w",
    "t1c",
    "t1ce",
    "t1gd",
    "t1km",
    "t2",
    "t2w",
    "t2f",
    "flair",
    "ct",
    "cta",
    "cbct",
    "hu",
    "pet",
    "suv",
    "adc",
    "dwi",
    "swi",
    "pd",
    "mr",
    "mri",
    "mra",
    "us",
)
"""Endings that name a channel, as in `a_t1.nii.gz`."""
MOST_CHANNEL_NUMBERS = 10
"""Files a_0000 to a_0009 may be channels; more of them are cases."""

_SEPARATOR = r"[_\-. ]"


def _at_the_end(words: Iterable[str]) -> re.Pattern[str]:
    """Matches one of the words at the end of a name, or as all of it."""
    return re.compile(rf"(?:^|{_SEPARATOR})({'|'.join(words)})$", re.IGNORECASE)


def _at_the_end_with_number(words: Iterable[str]) -> re.Pattern[str]:
    """Matches also a_seg2; but seg-2, which has nothing before it, is the label of case 2."""
    anywhere = "|".join(words)
    pattern = rf"(?:^(?:{anywhere})|{_SEPARATOR}(?:{anywhere})[_-]?\d?)$"
    return re.compile(pattern, re.IGNORECASE)


def _at_the_beginning(words: Iterable[str]) -> re.Pattern[str]:
    """Matches one of the words before a number, as in mask_01 and mask01."""
    return re.compile(rf"^(?:{'|'.join(words)}){_SEPARATOR}?(?=\d)", re.IGNORECASE)


_LABEL_END = _at_the_end_with_number(LABEL_WORDS)
_LABEL_BEGINNING = _at_the_beginning(LABEL_WORDS)
_IMAGE_END = _at_the_end(IMAGE_WORDS)
_IMAGE_BEGINNING = _at_the_beginning(IMAGE_WORDS)
_CHANNEL_END = _at_the_end(CHANNEL_WORDS)
_NUMBER_END = re.compile(r"_(\d{4})$")
_NEVER = re.compile("(?!)")


@dataclass(frozen=True)
class Names:
    """How the names of a folder's files are to be read."""

    channels: tuple[str, ...] | None = None
    """Endings that name a channel, beside those that are commonly used.

    None if they are not described. An empty ending, or none at all, says that names carry none.
    """
    label_suffix: str | None = None
    """The end of the names of labels; None for all words that are commonly used."""
    are_channels_numbered: bool = False
    """Whether a_0000 and a_0001 are channels of one case, and not two cases."""

    def looks_like_label(self, file: Path) -> bool:
        """Whether the name says that the file is a label, even if another suffix was chosen."""
        name = stem(file)
        if self.label_suffix and name.endswith(self.label_suffix):
            return True
        return bool(_LABEL_END.search(name) or _LABEL_BEGINNING.search(name))

    def is_chosen_label(self, file: Path) -> bool:
        """Whether this label is one of those that the description chose; without one, all are."""
        name = stem(file)
        if self.label_suffix is None:
            return True
        if self.label_suffix == "":
            return not self.looks_like_label(file)
        return name.endswith(self.label_suffix)

    def channel(self, file: Path) -> str:
        """The channel of an image in lower case; empty if its name does not say."""
        _, channel = self._split_channel(stem(file))
        return channel

    def case(self, file: Path) -> str:
        """The name of an image without its channel; empty if the name is all channel."""
        name, _ = self._split_channel(stem(file))
        return name

    def key(self, file: Path) -> str:
        """What the files of one case have in common: the name without all known words.

        Empty if nothing else remains: such a file is named after what it is.
        """
        name, _ = self._split_channel(self._without_label_word(file))
        return _without_image_word(name).casefold()

    def key_without_channel(self, file: Path) -> str:
        """The key without a word for a channel, even if the names are said to carry none."""
        name = _CHANNEL_END.sub("", self._without_label_word(file))
        return _without_image_word(name).casefold()

    def channel_of_label(self, file: Path) -> str:
        """The channel that a label was drawn on, as in a_t1_seg; empty if it does not say."""
        _, channel = self._split_channel(self._without_label_word(file))
        return channel

    def _without_label_word(self, file: Path) -> str:
        name = stem(file)
        if self.label_suffix and name.endswith(self.label_suffix):
            name = name.removesuffix(self.label_suffix)
        name = _LABEL_END.sub("", name)
        return _LABEL_BEGINNING.sub("", name)

    def _split_channel(self, name: str) -> tuple[str, str]:
        """The name without its channel, and the channel in lower case."""
        match = self._channel_pattern().search(name)
        if match is None and self.are_channels_numbered:
            match = _NUMBER_END.search(name)
        if match is None:
            return name, ""
        return name[: match.start()], match[1].lower()

    def _channel_pattern(self) -> re.Pattern[str]:
        if self.channels is None:
            return _CHANNEL_END
        if not all(self.channels):
            return _NEVER
        described = [re.escape(channel) for channel in self.channels]
        return _at_the_end([*described, *CHANNEL_WORDS]) if described else _NEVER


def _without_image_word(name: str) -> str:
    name = _IMAGE_END.sub("", name)
    return _IMAGE_BEGINNING.sub("", name)


def has_channel_numbers(images: Iterable[Path], labels: Iterable[Path]) -> bool:
    """Whether the numbers at the end of a_0000 and a_0001 are channels, as in nnU-Net.

    They are cases if a label carries such a number too, if a case does not begin with 0000, or if
    there are many of them.
    """
    numbers_by_case: dict[str, set[int]] = {}
    for image in images:
        match = _NUMBER_END.search(stem(image))
        if match is None:
            return False
        case = stem(image)[: match.start()]
        numbers_by_case.setdefault(case, set()).add(int(match[1]))
    for label in labels:
        if _NUMBER_END.search(_LABEL_END.sub("", stem(label))):
            return False
    for numbers in numbers_by_case.values():
        if 0 not in numbers or max(numbers) >= MOST_CHANNEL_NUMBERS:
            return False
    return bool(numbers_by_case)
