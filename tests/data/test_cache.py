"""The cache: prepared once, trusted only when whole, rebuilt when anything changes, bounded."""

import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import segpl.data.cache
from segpl.data.cache import Cache, open_volume, write_volume
from segpl.data.cases import Case
from segpl.data.layouts import read_dataset
from segpl.data.preparation import Preparation, Volume, load
from segpl.foundation.files import DRAFT


@pytest.fixture
def data(tumours, tmp_path):
    return read_dataset(shutil.copytree(tumours, tmp_path / "data"))


def labelled(data):
    return [case for case in data.training if case.label]


@pytest.fixture
def loads(monkeypatch):
    """Which cases were prepared, and not found."""
    prepared = []

    def counted(case, task, preparation):
        prepared.append(case.name)
        return load(case, task, preparation)

    monkeypatch.setattr(segpl.data.cache, "load", counted)
    return prepared


def same(first, second):
    return torch.equal(first.x, second.x) and (first.y is None or torch.equal(first.y, second.y))


def test_a_cached_volume_is_the_prepared_one_and_is_prepared_once(data, tmp_path, loads):
    cache, cases = Cache(tmp_path / "cache"), data.training
    plain = [load(case, data.task, Preparation()) for case in cases]
    for _ in range(2):
        assert all(map(same, cache.volumes(cases, data.task, Preparation()), plain))
    assert loads == [case.name for case in cases]


def test_a_change_of_file_or_setting_is_noticed(data, tmp_path, loads):
    cache, cases = Cache(tmp_path / "cache"), labelled(data)[:1]
    before = cache.volumes(cases, data.task, Preparation())[0]
    cache.volumes(cases, data.task, Preparation(window=(0.0, 100.0)))
    cache.volumes([cases[0].unlabelled()], data.task, Preparation())
    assert len(loads) == 3
    shutil.copy(labelled(data)[1].images[0], cases[0].images[0])
    after = cache.volumes(cases, data.task, Preparation())[0]
    assert len(loads) == 4
    assert not same(before, after)


def test_a_copy_under_another_name_is_the_same_entry(data, tmp_path, loads):
    cache, case = Cache(tmp_path / "cache"), labelled(data)[0]
    cache.volumes([case], data.task, Preparation())
    moved = Path(shutil.copytree(data.folder, tmp_path / "elsewhere"))
    again = next(each for each in read_dataset(moved).training if each.name == case.name)
    cache.volumes([again], data.task, Preparation())
    assert len(loads) == 1


def test_voxels_beside_a_header_are_part_of_the_key(tmp_path):
    """Two MHD scans of one geometry have the same header; their voxels do not."""
    import numpy as np
    import SimpleITK as sitk

    from segpl.data.cases import Case, Region, Task

    cases = []
    for number in range(2):
        place = tmp_path / f"subject#{number}"
        place.mkdir()
        voxels = np.random.default_rng(number).normal(size=(8, 8, 8)).astype(np.float32)
        sitk.WriteImage(sitk.GetImageFromArray(voxels), str(place / "scan.mhd"))
        cases.append(Case(f"c{number}", f"s{number}", (place / "scan.mhd",)))
    task = Task(("MR",), (Region("a", (1,), 1),))
    first, second = Cache(tmp_path / "cache").volumes(cases, task, Preparation())
    assert not torch.equal(first.x, second.x)


def test_what_a_kill_left_half_built_is_not_trusted(data, tmp_path, monkeypatch):
    cache, cases = Cache(tmp_path / "cache"), labelled(data)[:1]
    monkeypatch.setattr(segpl.data.cache, "write_volume", lambda *_: os._exit(9))
    pid = os.fork()
    if pid == 0:
        cache.volumes(cases, data.task, Preparation())
        os._exit(0)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    monkeypatch.undo()
    left = list((tmp_path / "cache/volumes").iterdir())
    assert [each.name.startswith(DRAFT) for each in left] == [True]
    assert same(
        cache.volumes(cases, data.task, Preparation())[0], load(cases[0], data.task, Preparation())
    )


def test_two_processes_on_a_cold_cache_both_succeed(data, tmp_path):
    code = (
        "import sys; from pathlib import Path; from segpl.data.cache import Cache\n"
        "from segpl.data.layouts import read_dataset; from segpl.data.preparation import Preparation\n"
        "data = read_dataset(Path(sys.argv[1]))\n"
        "found = Cache(Path(sys.argv[2])).volumes(data.training, data.task, Preparation())\n"
        "print([float(volume.x.double().sum()) for volume in found])"
    )
    command = [sys.executable, "-c", code, str(data.folder), str(tmp_path / "cache")]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
        for _ in range(2)
    ]
    printed = [process.communicate()[0] for process in both]
    assert [process.returncode for process in both] == [0, 0]
    assert printed[0] == printed[1]
    entries = list((tmp_path / "cache/volumes").iterdir())
    assert len(entries) == len(data.training)
    assert not any(entry.name.startswith(DRAFT) for entry in entries)


def test_the_cache_stays_below_its_limit(data, tmp_path):
    size = load(data.training[0], data.task, Preparation()).x.numel() * 4
    cache = Cache(tmp_path / "cache", limit=2.9 * size)
    for case in data.training:
        volume = cache.volumes([case], data.task, Preparation())[0]
        assert volume.x.sum().isfinite()
    assert len(list((tmp_path / "cache/volumes").iterdir())) == 2


def test_many_small_readings_stay_below_the_limit_too(data, tmp_path):
    """Each of them builds far less than a twentieth of what the cache may hold."""
    size = load(data.training[0], data.task, Preparation()).x.numel() * 4
    cache = Cache(tmp_path / "cache", limit=42 * size)
    for width in range(50):
        cache.volumes(data.training[:1], data.task, Preparation(window=(0, 1000 + width)))
    assert 30 < len(list((tmp_path / "cache/volumes").iterdir())) < 42


def test_data_larger_than_the_limit_are_prepared_once_and_stay_readable(
    data, tmp_path, monkeypatch
):
    prepared = []
    monkeypatch.setattr(
        segpl.data.cache,
        "load",
        lambda case, *rest: prepared.append(case.name) or load(case, *rest),
    )
    size = load(data.training[0], data.task, Preparation()).x.numel() * 4
    found = Cache(tmp_path / "cache", limit=2.9 * size).volumes(
        data.training, data.task, Preparation()
    )
    assert prepared == [case.name for case in data.training]
    assert len(list((tmp_path / "cache/volumes").iterdir())) == 2 < len(found)
    for volume, case in zip(found, data.training, strict=True):
        assert same(volume, load(case, data.task, Preparation()))


def test_a_patch_does_not_load_its_volume(data, tmp_path):
    """The numbers are mapped from disk: the tensor lives in a file's pages, not in memory of its own."""
    cache, case = Cache(tmp_path / "cache"), labelled(data)[0]
    volume = cache.volumes([case], data.task, Preparation())[0]
    address, mapped = volume.x.data_ptr(), False
    for line in Path("/proc/self/maps").read_text().splitlines():
        low, high = (int(edge, 16) for edge in line.split()[0].split("-"))
        mapped |= low <= address < high and line.endswith("x.npy")
    assert mapped


def test_thousands_of_volumes_can_be_open_at_once(tmp_path):
    """A process may have some thousand files open: far fewer than a data set may have volumes."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (len(list(Path("/proc/self/fd").iterdir())) + 20, before[1])
    )
    try:
        found = []
        for number in range(60):
            case = Case(str(number), str(number), (Path("x"),), Path("y"))
            (tmp_path / case.name).mkdir()
            x = torch.full((1, 3, 4, 5), float(number))
            write_volume(tmp_path / case.name, Volume(case, x, x == number))
            found.append(open_volume(tmp_path / case.name, case))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert [volume.x.unique().item() for volume in found] == list(range(60))
    assert all(volume.y.all() for volume in found)
