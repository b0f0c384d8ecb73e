"""Put the channels and labels of each case together."""

import os
import re
from collections.abc import Iterable, Sequence
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
    is_one_case = group.patient != "" and len(drafts) == 1
    for label in group.labels:
        key = next(iter(drafts)) if is_one_case else _key(label, group, names)
        if key not in drafts:
            raise UserError(
                f"{label} has no image that belongs to it: add the image or remove the label; if "
                "it belongs to an image of another name, write what its name ends with into "
                "segpl.yaml, such as `label_suffix: _seg`."
            )
        drafts[key].labels.append(label)
    if len(drafts) == 1 and group.patient:
        only = next(iter(drafts.values()))
        only.name = group.patient
    return list(drafts.values())


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
                f'`skip: ["{image.name}"]`.'
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
            f'it out by `skip: ["{image.name}"]` in segpl.yaml.'
        )


def folder_questions(groups: Iterable[FileGroup]) -> list[Question]:
    """Two folders that could hold images, or labels."""
    questions = {}
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
            questions.append(_label_question(draft))
            break
    if not names.channels:
        questions += _channel_questions(drafts)
    return questions


def _label_question(draft: DraftCase) -> Question:
    first, second = draft.labels[:2]
    ambiguity = f"{first} and {second} could both be the label of case {draft.name}"
    suffix, other_suffix = _different_ends(stem(first), stem(second))
    if suffix == other_suffix:
        return Question(ambiguity, f'skip: ["{second.name}"]')
    return Question(ambiguity, f'label_suffix: "{suffix}"')


def _different_ends(first: str, second: str) -> tuple[str, str]:
    """What two names end with after the words that both begin with."""
    common = os.path.commonprefix([first, second])
    is_whole_word = all(re.match(r"[_\-. ]|$", name[len(common) :]) for name in (first, second))
    if not is_whole_word:
        separators = list(re.finditer(r"[_\-. ]", common))
        common = common[: separators[-1].start()] if separators else ""
    return first[len(common) :], second[len(common) :]


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
    chosen = sorted(common) or list(max(drafts, key=lambda d: len(d.image_by_channel)).channels())
    return [Question(ambiguity, f"channels: [{', '.join(_quoted(name) for name in chosen)}]")]


def _list_channels(draft: DraftCase) -> str:
    named = [channel or "no ending" for channel in draft.channels()]
    return f"the channels {', '.join(named)}" if len(named) > 1 else f"the channel {named[0]}"


def _quoted(channel: str) -> str:
    """A channel as YAML writes it: a number in quotes."""
    return f'"{channel}"' if channel.isdigit() else channel


def _unclear_folder(drafts: Sequence[DraftCase]) -> Question | None:
    """A patient with several images and a label that belongs to one of them, or to all."""
    drafts_by_folder: dict[str, list[DraftCase]] = {}
    for draft in drafts:
        if draft.group.patient:
            drafts_by_folder.setdefault(draft.group.patient, []).append(draft)
    for patient, cases in drafts_by_folder.items():
        labels = sum(len(case.labels) for case in cases)
        if len(cases) > 1 and labels == 1:
            files: list[Path] = []
            for case in cases:
                files += case.image_by_channel.values()
            endings = [_ending(file, patient) for file in files]
            ambiguity = (
                f"{files[0]} and {files[1]} could be two scans of patient {patient}, "
                "or two channels of one"
            )
            return Question(ambiguity, f"channels: [{', '.join(map(_quoted, endings))}]")
    return None


def _ending(file: Path, patient: str) -> str:
    return stem(file).removeprefix(patient).strip("_-. ")
