"""Where the images and labels of a plain folder are."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path

from segpl.data.layouts.pairing import images_in, visible
from segpl.data.layouts.plain.description import Description
from segpl.data.layouts.plain.names import Names
from segpl.data.reviews import is_review_folder

IMAGE_FOLDERS = ("images", "image", "imgs", "img", "scans", "scan", "volumes", "volume")
LABEL_FOLDERS = (
    "labels",
    "label",
    "lbls",
    "masks",
    "mask",
    "segmentations",
    "segmentation",
    "segs",
    "seg",
    "annotations",
    "annotation",
    "gt",
    "ground_truth",
    "groundtruth",
)
TRAINING_FOLDERS = ("train", "training", "labelled", "labeled", "unlabelled", "unlabeled")
TEST_FOLDERS = ("test", "testing")


@dataclass
class FileGroup:
    """Files among which images and labels belong together: two folders, or one of a patient."""

    split: str
    """training or test."""
    patient: str = ""
    """The name of the patient's folder; empty for folders with the files of many patients."""
    images: list[Path] = field(default_factory=list)
    labels: list[Path] = field(default_factory=list)
    image_folders: list[Path] = field(default_factory=list)
    """Folders that could hold the images. More than one is ambiguous."""
    label_folders: list[Path] = field(default_factory=list)
    """Folders that could hold the labels. More than one is ambiguous."""


def find_groups(folder: Path, description: Description, names: Names) -> list[FileGroup]:
    """All files of a plain folder, in groups that hold an image."""
    groups: list[FileGroup] = []
    for root, split in _roots(folder):
        groups += _groups_below(root, split, folder, description, names)
    return [group for group in groups if group.images or group.labels]


def _roots(folder: Path) -> Iterator[tuple[Path, str]]:
    """The folders that hold training or test cases, each with the name of the split."""
    yield folder, "training"
    for subfolder in _subfolders(folder):
        if subfolder.name.lower() in TRAINING_FOLDERS:
            yield subfolder, "training"
        if subfolder.name.lower() in TEST_FOLDERS:
            yield subfolder, "test"


def _groups_below(
    root: Path,
    split: str,
    folder: Path,
    description: Description,
    names: Names,
) -> list[FileGroup]:
    subfolders = _subfolders(root)
    image_folders = _chosen(subfolders, IMAGE_FOLDERS, description.image_folder)
    label_folders = _chosen(subfolders, LABEL_FOLDERS, description.label_folder)
    if image_folders or label_folders:
        group = FileGroup(split, image_folders=image_folders, label_folders=label_folders)
        _fill_from_two_folders(group, root, description, names)
        return [group]
    groups = []
    mixed = FileGroup(split)
    _fill_from_one_folder(mixed, _files(root, description), names)
    groups.append(mixed)
    reserved = {*TRAINING_FOLDERS, *TEST_FOLDERS} if root == folder else set()
    series = set(mixed.images)
    for subfolder in subfolders:
        if subfolder.name.lower() not in reserved and subfolder not in series:
            patient = FileGroup(split, patient=subfolder.name)
            _fill_from_one_folder(patient, _files(subfolder, description), names)
            groups.append(patient)
    return groups


def _fill_from_two_folders(
    group: FileGroup, root: Path, description: Description, names: Names
) -> None:
    """Images from the image folders, or beside the label folder if there are none.

    A label that is among the images counts as a label if it belongs to one of them.
    """
    for folder in group.image_folders or [root]:
        group.images += _files(folder, description)
    for folder in group.label_folders:
        labels = _files(folder, description)
        group.labels += [file for file in labels if names.is_chosen_label(file)]
    suspects = [file for file in group.images if names.looks_like_label(file)]
    image_keys = {names.key(file) for file in group.images if file not in suspects}
    for file in suspects:
        if names.key(file) in image_keys:
            group.images.remove(file)
            if names.is_chosen_label(file):
                group.labels.append(file)


def _fill_from_one_folder(group: FileGroup, files: Iterable[Path], names: Names) -> None:
    for file in files:
        if not names.looks_like_label(file):
            group.images.append(file)
        elif names.is_chosen_label(file):
            group.labels.append(file)


def _chosen(subfolders: list[Path], known: tuple[str, ...], described: str | None) -> list[Path]:
    """The folders that hold images and have a known name; or the described one alone."""
    if described is not None:
        return [subfolder for subfolder in subfolders if subfolder.name == described]
    named = [subfolder for subfolder in subfolders if subfolder.name.lower() in known]
    return [subfolder for subfolder in named if images_in(subfolder)]


def _files(folder: Path, description: Description) -> list[Path]:
    files = images_in(folder)
    return [file for file in files if not _is_skipped(file, description)]


def _is_skipped(file: Path, description: Description) -> bool:
    """Whether a pattern fits the name of the file, or the end of its path."""
    for pattern in description.skip:
        if fnmatch(file.name, pattern) or fnmatch(str(file), f"*/{pattern}"):
            return True
    return False


def _subfolders(folder: Path) -> list[Path]:
    """The visible subfolders, without the one of reviewed labels."""
    subfolders = [path for path in visible(folder.iterdir()) if path.is_dir()]
    return [path for path in subfolders if not is_review_folder(path)]
