"""Put the channels and labels of each case together."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from segpl.data.formats import stem
from segpl.data.layouts.ambiguity import Question
from segpl.data.layouts.plain.folders import FileGroup
from segpl.data.layouts.plain.names import Names
from segpl.foundation.errors import UserError


@dataclass
class DraftCase:
    """A case whose channels and label may still be ambiguous."""

    name: str
    group: FileGroup
    image_by_channel: dict[str, Path] = field(default_factory=dict)
    labels: list[Path] = field(default_factory=list)
    is_label_unclear: bool = False
    """Whether the label may also be that of other images in the patient's folder."""

    def channels(self) -> tuple[str, ...]:
        """The channels of the case in alphabetical order; one empty name if names carry none."""
        return tuple(sorted(self.image_by_channel))

    def images(self, channels: Iterable[str]) -> tuple[Path, ...]:
        """The images of these channels, as far as the case has them."""
        files = self.image_by_channel
        return tuple(files[channel] for channel in channels if channel in files)


def draft_cases(group: FileGroup, names: Names) -> list[DraftCase]:
    """The cases of a group of files, with all labels that could be theirs."""
    drafts: dict[str, DraftCase] = {}
    for image in _described_images(group, names):
        key = _key(image, group, names)
        if key not in drafts:
            drafts[key] = DraftCase(_case_name(image, group, names), group)
        _add_image(drafts[key], names.channel(image), image)
    for label in group.labels:
        draft = _draft_of_label(label, drafts, group, names)
        draft.labels.append(label)
    if len(drafts) == 1 and group.patient:
        only = next(iter(drafts.values()))
        only.name = group.patient
    return list(drafts.values())


def _draft_of_label(
    label: Path,
    drafts: Mapping[str, DraftCase],
    group: FileGroup,
    names: Names,
) -> DraftCase:
    """The case that a label belongs to; an error if there is none.

    The only case of a patient's folder has all labels in it, whatever their names.
    """
    if group.patient and len(drafts) == 1:
        return next(iter(drafts.values()))
    key = _key(label, group, names)
    if group.patient and key == "" and names.channels is None:
        draft = drafts.get(key) or next(iter(drafts.values()))
        draft.is_label_unclear = True
        return draft
    if key in drafts:
        return drafts[key]
    key = names.key_without_channel(label)
    similar = []
    for draft in drafts.values():
        image = next(iter(draft.image_by_channel.values()))
        if names.key_without_channel(image) == key:
            similar.append(draft)
    if len(similar) == 1:
        return similar[0]
    raise UserError(
        f"{label} has no image that belongs to it: add the image or remove the label; if it "
        "belongs to an image of another name, write what its name ends with into segpl.yaml, "
        "such as `label_suffix: _seg`."
    )


def _described_images(group: FileGroup, names: Names) -> list[Path]:
    """The images whose channel is among the described ones; all if none are described."""
    if not names.channels or not all(names.channels):
        return group.images
    images = []
    for image in group.images:
        channel = names.channel(image)
        if channel == "":
            raise UserError(
                f"{image} ends with none of the channels that segpl.yaml names "
                f"({', '.join(names.channels)}): rename it, or leave it out by "
                f"`{_skip_line(image)}`."
            )
        if channel in names.channels:
            images.append(image)
    return images


def _key(file: Path, group: FileGroup, names: Names) -> str:
    """What the files of a case have in common; empty for a file named after its patient."""
    key = names.key(file)
    return "" if key == group.patient.casefold() else key


def _case_name(image: Path, group: FileGroup, names: Names) -> str:
    """The name of the image without its channel, with the patient in front."""
    name = names.case(image)
    if not group.patient or name.startswith(group.patient):
        return name or stem(image)
    return f"{group.patient}_{name}" if name else group.patient


def _add_image(draft: DraftCase, channel: str, image: Path) -> None:
    first = draft.image_by_channel.setdefault(channel, image)
    if first != image:
        raise UserError(
            f"{first} and {image} both belong to case {draft.name}: rename one of them, or leave "
            f"it out by `{_skip_line(image)}` in segpl.yaml."
        )


def _skip_line(file: Path) -> str:
    return f'skip: ["{file.parent.name}/{file.name}"]'


def folder_questions(groups: Iterable[FileGroup]) -> list[Question]:
    """Two folders that could hold images, or labels."""
    questions: dict[str, Question] = {}
    for group in groups:
        for key, kind, folders in (
            ("image_folder", "images", group.image_folders),
            ("label_folder", "labels", group.label_folders),
        ):
            if len(folders) > 1:
                ambiguity = f"{folders[0]} and {folders[1]} could both hold the {kind}"
                questions.setdefault(key, Question(ambiguity, f"{key}: {folders[0].name}"))
    return list(questions.values())


def case_questions(drafts: Sequence[DraftCase], names: Names) -> list[Question]:
    """Cases with two labels, and channels that only some cases have."""
    questions = []
    for draft in drafts:
        if len(draft.labels) > 1:
            questions.append(_label_question(draft, names))
            break
    if names.channels is None:
        questions += _channel_questions(drafts)
    return questions


def _label_question(draft: DraftCase, names: Names) -> Question:
    first, second = draft.labels[:2]
    channels_of_labels = sorted(names.channel_of_label(label) for label in draft.labels)
    if tuple(channels_of_labels) == draft.channels() and len(channels_of_labels) > 1:
        ambiguity = f"{first} and {second} could be labels of two cases, or of two channels of one"
        return Question(ambiguity, "channels: []")
    ambiguity = f"{first} and {second} could both be the label of case {draft.name}"
    suffix, other_suffix = _different_ends(stem(first), stem(second))
    if suffix == other_suffix:
        return Question(ambiguity, _skip_line(second))
    return Question(ambiguity, f'label_suffix: "{suffix}"')


def _different_ends(first: str, second: str) -> tuple[str, str]:
    """What two names end with after the words that both begin with."""
    words = re.split(r"(?=[_\-. ])", first)
    other_words = re.split(r"(?=[_\-. ])", second)
    while words and other_words and words[0] == other_words[0]:
        words.pop(0)
        other_words.pop(0)
    return "".join(words), "".join(other_words)


def _channel_questions(drafts: Sequence[DraftCase]) -> list[Question]:
    unclear = _unclear_folder(drafts)
    if unclear is not None:
        return [unclear]
    first = drafts[0]
    common = set(first.channels())
    different: DraftCase | None = None
    for draft in drafts:
        if draft.channels() != first.channels():
            different = different or draft
        common &= set(draft.channels())
    if different is None:
        return []
    ambiguity = (
        f"case {first.name} has {_list_channels(first)} and case {different.name} has "
        f"{_list_channels(different)}"
    )
    if all(len(draft.image_by_channel) == 1 for draft in drafts):
        return [Question(ambiguity, "channels: []")]
    most_channels = max((draft.channels() for draft in drafts), key=len)
    return [Question(ambiguity, _channels_line(sorted(common) or most_channels))]


def _list_channels(draft: DraftCase) -> str:
    named = [channel or "no ending" for channel in draft.channels()]
    return f"the channels {', '.join(named)}" if len(named) > 1 else f"the channel {named[0]}"


def _unclear_folder(drafts: Sequence[DraftCase]) -> Question | None:
    """A patient with several images and a label that belongs to one of them, or to all."""
    for unclear in drafts:
        if unclear.is_label_unclear:
            files: list[Path] = []
            for draft in drafts:
                if draft.group is unclear.group:
                    files += draft.image_by_channel.values()
            return _scans_or_channels(files, unclear.group.patient)
    return None


def _scans_or_channels(files: Sequence[Path], patient: str) -> Question:
    ambiguity = (
        f"{files[0]} and {files[1]} could be two scans of patient {patient} (`channels: []`) "
        "or two channels of one"
    )
    endings = [stem(file).removeprefix(patient).strip("_-. ") for file in files]
    if not all(endings):
        return Question(ambiguity, _skip_line(files[endings.index("") - 1]))
    return Question(ambiguity, _channels_line(endings))


def _channels_line(channels: Iterable[str]) -> str:
    """A line of YAML, with numbers in quotes."""
    quoted = [f'"{channel}"' if channel.isdigit() else channel for channel in channels]
    return f"channels: [{', '.join(quoted)}]"
