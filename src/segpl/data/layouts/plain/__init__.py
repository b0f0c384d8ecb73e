"""Plain folders: images and labels with matching names, without a `dataset.json`.

`images/` and `labels/`, or one folder per patient; `segpl.yaml` is optional.
"""

from collections.abc import Sequence
from pathlib import Path

from segpl.data.cases import Case, Cases, Dataset, Task
from segpl.data.layouts.ambiguity import AmbiguousFolderError, CandidateCase, Question
from segpl.data.layouts.plain.description import (
    Description,
    channel_suffixes,
    description_file,
    read_description,
    regions,
)
from segpl.data.layouts.plain.folders import FileGroup, find_groups
from segpl.data.layouts.plain.grouping import (
    DraftCase,
    case_questions,
    draft_cases,
    folder_questions,
)
from segpl.data.layouts.plain.names import Names, has_channel_numbers
from segpl.data.layouts.plain.subjects import described_subjects, explain, guess_subjects
from segpl.data.layouts.task_from_files import infer_task
from segpl.foundation.errors import UserError

NAME = "plain folders"
DESCRIPTION = (
    "images and labels (or masks, segmentations) with files of the same names, "
    "or a folder per patient with its images and a label such as case_seg.nii.gz"
)
TREE = """
images/   anna.nii.gz   ben.nii.gz   carl.nii.gz
labels/   anna.nii.gz   ben.nii.gz               (also: masks/, anna_seg.nii.gz)
test/     images/   labels/                      (optional)

or one folder per patient:
anna/     anna_t1.nii.gz   anna_flair.nii.gz   anna_seg.nii.gz
ben/      ben_t1.nii.gz    ben_flair.nii.gz      (no label: unlabelled)
"""


def recognises(folder: Path) -> bool:
    """Whether there is a `segpl.yaml`, or images with at least one label."""
    if not folder.is_dir():
        return False
    if description_file(folder).is_file():
        return True
    groups = find_groups(folder, Description(), Names())
    has_images = any(group.images for group in groups)
    has_labels = any(group.labels for group in groups)
    return has_images and has_labels


def read(folder: Path) -> Dataset:
    """The dataset in `folder`; an `AmbiguousFolderError` if it can be read in more than one way."""
    description = read_description(folder)
    names = _names(folder, description)
    groups = find_groups(folder, description, names)
    if not any(group.images for group in groups):
        raise UserError(f"{folder} holds no image: put some into {folder / 'images'}.")
    questions = folder_questions(groups)
    drafts = _drafts(groups, names, questions)
    case_names = [draft.name for draft in drafts]
    patients = [draft.group.patient for draft in drafts]
    subjects = _subjects(folder, description, case_names, patients)
    questions = questions or case_questions(drafts, names)
    if questions:
        candidates = _candidates(drafts, subjects)
        raise AmbiguousFolderError(description_file(folder), questions, candidates)
    channels = _channel_endings(drafts, description)
    training = _cases(drafts, subjects, channels, "training")
    test = _cases(drafts, subjects, channels, "test")
    note = "as segpl.yaml says"
    if description.subjects is None:
        note = explain(case_names, subjects, patients)
    return Dataset(
        folder=folder,
        task=_task(folder, description, training, test, channels),
        training=training,
        test=test,
        layout=NAME,
        subject_rule=note,
    )


def _names(folder: Path, description: Description) -> Names:
    suffixes = channel_suffixes(description)
    if suffixes is not None:
        endings = tuple(suffix.lower() for suffix in suffixes.values())
        is_numbered = any(ending.isdigit() for ending in endings)
        return Names(endings, description.label_suffix, is_numbered)
    names = Names(None, description.label_suffix)
    images: list[Path] = []
    labels: list[Path] = []
    for group in find_groups(folder, description, names):
        images += group.images
        labels += group.labels
    is_numbered = has_channel_numbers(images, labels)
    return Names(None, description.label_suffix, is_numbered)


def _drafts(
    groups: Sequence[FileGroup],
    names: Names,
    questions: Sequence[Question],
) -> list[DraftCase]:
    """The cases of all groups. Where folders are ambiguous, those of the first one alone."""
    drafts = []
    for group in groups:
        if questions and len(group.image_folders) > 1:
            chosen = group.image_folders[0]
            group.images = [file for file in group.images if file.parent == chosen]
        drafts += draft_cases(group, names)
    return drafts


def _subjects(
    folder: Path,
    description: Description,
    cases: Sequence[str],
    patients: Sequence[str],
) -> list[str]:
    if description.subjects is None:
        return guess_subjects(cases, patients)
    return described_subjects(cases, description.subjects, description_file(folder))


def _candidates(drafts: Sequence[DraftCase], subjects: Sequence[str]) -> list[CandidateCase]:
    """What would be read, the ambiguous cases first."""
    candidates = []
    for draft, subject in zip(drafts, subjects, strict=True):
        images = draft.images(draft.channels())
        labels = tuple(draft.labels)
        candidate = CandidateCase(draft.name, subject, images, labels, draft.group.split)
        candidates.append(candidate)
    return sorted(candidates, key=lambda candidate: len(candidate.labels) < 2)


def _channel_endings(drafts: Sequence[DraftCase], description: Description) -> tuple[str, ...]:
    """The endings that name the channels, in the order of the network's input."""
    suffixes = channel_suffixes(description)
    if suffixes:
        return tuple(suffix.lower() for suffix in suffixes.values())
    return drafts[0].channels()


def _cases(
    drafts: Sequence[DraftCase],
    subjects: Sequence[str],
    channels: tuple[str, ...],
    split: str,
) -> Cases:
    cases = []
    for draft, subject in zip(drafts, subjects, strict=True):
        if draft.group.split != split:
            continue
        _check_channels(draft, channels)
        label = draft.labels[0] if draft.labels else None
        cases.append(Case(draft.name, subject, draft.images(channels), label))
    return tuple(cases)


def _check_channels(draft: DraftCase, channels: tuple[str, ...]) -> None:
    """Raise an error if the case lacks a channel that `segpl.yaml` names."""
    for channel in channels:
        if channel not in draft.image_by_channel:
            first = next(iter(draft.image_by_channel.values()))
            raise UserError(
                f"{first.parent} has no image of case {draft.name} that ends with _{channel}: add "
                f'it, or leave the case out by `skip: ["{draft.name}*"]` in segpl.yaml.'
            )


def _task(
    folder: Path,
    description: Description,
    training: Cases,
    test: Cases,
    channels: tuple[str, ...],
) -> Task:
    """The described regions and channels, or those that the files show."""
    channel_names = _channel_names(description, channels)
    return infer_task(
        folder, training, test, channel_names, regions(description), description.ignore
    )


def _channel_names(description: Description, channels: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the channels; none if the names of the files do not say."""
    suffixes = channel_suffixes(description)
    if suffixes:
        return tuple(suffixes)
    if len(channels) == 1 and (channels[0] == "" or channels[0].isdigit()):
        return ()
    return tuple(f"channel {int(name)}" if name.isdigit() else name for name in channels)
