"""The cache: prepared once, trusted only when complete, rebuilt after any change, bounded."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import SimpleITK as sitk
import torch

import segpl.data.cache
from segpl.data.cache import Cache, open_volume, write_volume
from segpl.data.cases import Case, Region, Task
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Preparation, Volume, load
from segpl.foundation.files import DRAFT

SUM_OF_ALL_VOLUMES = """
import sys
from pathlib import Path
from segpl.data.cache import Cache
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Preparation

dataset = read_dataset(Path(sys.argv[1]))
volumes = Cache(Path(sys.argv[2])).volumes(dataset.training, dataset.task, Preparation())
print([float(volume.x.double().sum()) for volume in volumes])
"""


@pytest.fixture
def dataset(tumours, tmp_path):
    return read_dataset(shutil.copytree(tumours, tmp_path / "data"))


@pytest.fixture
def labelled(dataset):
    return [case for case in dataset.training if case.label]


@pytest.fixture
def cache(tmp_path):
    return Cache(tmp_path / "cache")


@pytest.fixture
def prepared_names(monkeypatch):
    """The names of the cases that were prepared and not found in the cache."""
    names = []

    def load_and_count(case, task, preparation):
        names.append(case.name)
        return load(case, task, preparation)

    monkeypatch.setattr(segpl.data.cache, "load", load_and_count)
    return names


def are_same(first, second):
    if not torch.equal(first.x, second.x):
        return False
    return first.y is None or torch.equal(first.y, second.y)


def entries_of(cache):
    return list((cache.folder / "volumes").iterdir())


def bytes_of_a_volume(dataset):
    volume = load(dataset.training[0], dataset.task, Preparation())
    return volume.x.numel() * 4


def test_a_cached_volume_is_the_prepared_one_and_is_prepared_once(dataset, cache, prepared_names):
    cases = dataset.training
    expected = [load(case, dataset.task, Preparation()) for case in cases]
    for _ in range(2):
        volumes = cache.volumes(cases, dataset.task, Preparation())
        assert all(map(are_same, volumes, expected))
    assert prepared_names == [case.name for case in cases]


def test_other_settings_make_another_entry(dataset, labelled, cache, prepared_names):
    case = labelled[0]
    cache.volumes([case], dataset.task, Preparation())
    cache.volumes([case], dataset.task, Preparation(window=(0.0, 100.0)))
    cache.volumes([case.unlabelled()], dataset.task, Preparation())
    assert len(prepared_names) == 3


def test_a_changed_file_is_noticed(dataset, labelled, cache):
    case = labelled[0]
    before = cache.volumes([case], dataset.task, Preparation())[0]
    shutil.copy(labelled[1].images[0], case.images[0])
    after = cache.volumes([case], dataset.task, Preparation())[0]
    assert not are_same(before, after)


def test_a_copy_under_another_name_is_the_same_entry(
    dataset, labelled, cache, tmp_path, prepared_names
):
    case = labelled[0]
    cache.volumes([case], dataset.task, Preparation())
    copied = read_dataset(Path(shutil.copytree(dataset.folder, tmp_path / "elsewhere")))
    copied_case = next(other for other in copied.training if other.name == case.name)
    cache.volumes([copied_case], dataset.task, Preparation())
    assert len(prepared_names) == 1


def test_voxels_beside_a_header_are_part_of_the_key(cache, tmp_path):
    """Two MHD scans of one geometry have the same header, but other voxels."""
    cases = []
    for number in range(2):
        file = tmp_path / f"subject#{number}/scan.mhd"
        file.parent.mkdir()
        voxels = np.random.default_rng(number).normal(size=(8, 8, 8)).astype(np.float32)
        sitk.WriteImage(sitk.GetImageFromArray(voxels), str(file))
        cases.append(Case(f"c{number}", f"s{number}", (file,)))
    task = Task(("MR",), (Region("a", (1,), 1),))
    first, second = cache.volumes(cases, task, Preparation())
    assert not torch.equal(first.x, second.x)


def test_an_entry_that_a_killed_process_left_incomplete_is_not_trusted(
    dataset, labelled, cache, monkeypatch
):
    cases = labelled[:1]
    monkeypatch.setattr(segpl.data.cache, "write_volume", lambda *_: os._exit(9))
    child = os.fork()
    if child == 0:
        cache.volumes(cases, dataset.task, Preparation())
        os._exit(0)
    _, status = os.waitpid(child, 0)
    assert os.waitstatus_to_exitcode(status) == 9
    monkeypatch.undo()
    (incomplete,) = entries_of(cache)
    assert incomplete.name.startswith(DRAFT)
    volume = cache.volumes(cases, dataset.task, Preparation())[0]
    assert are_same(volume, load(cases[0], dataset.task, Preparation()))


@pytest.mark.parametrize("content", [b"", b"0" * 63, b"\0" * 64], ids=["empty", "cut", "zeros"])
def test_a_damaged_digest_is_made_again(dataset, labelled, cache, content):
    """Two scans with the same digest would be one entry: the wrong scan for one of them."""
    cache.volumes(labelled, dataset.task, Preparation())
    for note in (cache.folder / "digests").iterdir():
        note.write_bytes(content)
    volumes = cache.volumes(labelled, dataset.task, Preparation())
    for case, volume in zip(labelled, volumes, strict=True):
        assert are_same(volume, load(case, dataset.task, Preparation()))


@pytest.mark.parametrize("name", ["x.npy", "y.npy"])
@pytest.mark.parametrize("bytes_left", [None, 0, 64, -1], ids=["missing", "empty", "cut", "short"])
def test_a_damaged_entry_is_built_again(dataset, labelled, cache, name, bytes_left):
    case = labelled[0]
    cache.volumes([case], dataset.task, Preparation())
    (entry,) = entries_of(cache)
    content = (entry / name).read_bytes()
    (entry / name).unlink()
    if bytes_left is not None:
        (entry / name).write_bytes(content[:bytes_left])
    (volume,) = cache.volumes([case], dataset.task, Preparation())
    assert are_same(volume, load(case, dataset.task, Preparation()))
    assert (entry / name).read_bytes() == content


def test_two_processes_on_a_cold_cache_both_succeed(dataset, cache):
    command = [sys.executable, "-c", SUM_OF_ALL_VOLUMES, str(dataset.folder), str(cache.folder)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    processes = []
    for _ in range(2):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        processes.append(process)
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0]
    assert outputs[0] == outputs[1]
    entries = entries_of(cache)
    assert len(entries) == len(dataset.training)
    assert not any(entry.name.startswith(DRAFT) for entry in entries)


def test_the_cache_stays_below_its_limit(dataset, tmp_path):
    cache = Cache(tmp_path / "cache", limit=2.9 * bytes_of_a_volume(dataset))
    for case in dataset.training:
        volume = cache.volumes([case], dataset.task, Preparation())[0]
        assert volume.x.sum().isfinite()
    assert len(entries_of(cache)) == 2


def test_many_small_entries_stay_below_the_limit_too(dataset, tmp_path):
    """Each call writes far less than a twentieth of what the cache may hold."""
    cache = Cache(tmp_path / "cache", limit=42 * bytes_of_a_volume(dataset))
    for width in range(50):
        cache.volumes(dataset.training[:1], dataset.task, Preparation(window=(0, 1000 + width)))
    assert 30 < len(entries_of(cache)) < 42


def test_data_larger_than_the_limit_are_prepared_once_and_stay_readable(
    dataset, tmp_path, prepared_names
):
    cache = Cache(tmp_path / "cache", limit=2.9 * bytes_of_a_volume(dataset))
    volumes = cache.volumes(dataset.training, dataset.task, Preparation())
    assert prepared_names == [case.name for case in dataset.training]
    assert len(entries_of(cache)) == 2 < len(volumes)
    for volume, case in zip(volumes, dataset.training, strict=True):
        assert are_same(volume, load(case, dataset.task, Preparation()))


def mapped_file(address):
    """The file that is mapped to this address of the process; None for ordinary memory."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        addresses, *_, name = line.split()
        start, end = addresses.split("-")
        if int(start, 16) <= address < int(end, 16):
            return Path(name)
    return None


def test_a_volume_is_mapped_from_its_file_and_not_loaded(dataset, labelled, cache):
    volume = cache.volumes(labelled[:1], dataset.task, Preparation())[0]
    assert mapped_file(volume.x.data_ptr()).name == "x.npy"


@pytest.fixture
def few_open_files():
    """The process can open only 20 more files."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    now_open = len(list(Path("/proc/self/fd").iterdir()))
    resource.setrlimit(resource.RLIMIT_NOFILE, (now_open + 20, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_more_volumes_can_be_open_than_files(tmp_path, few_open_files):
    volumes = []
    for number in range(60):
        case = Case(str(number), str(number), (Path("x"),), Path("y"))
        folder = tmp_path / case.name
        folder.mkdir()
        x = torch.full((1, 3, 4, 5), float(number))
        write_volume(folder, Volume(case, x, x == number))
        volumes.append(open_volume(folder, case))
    assert [volume.x.unique().item() for volume in volumes] == list(range(60))
    assert all(volume.y.all() for volume in volumes)
