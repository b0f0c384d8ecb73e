"""A short form of `make fuzz`."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from fuzz import fuzz_checksums, fuzz_commands, fuzz_dicom_slices


def test_no_flipped_bit_of_a_format_with_a_checksum_changes_voxels(tmp_path):
    counts = fuzz_checksums(tmp_path, flips=100)
    assert counts["accepted changed"] == 0
    assert counts["refused"] > 80


def test_no_cut_dicom_slice_is_left_out(tmp_path):
    counts = fuzz_dicom_slices(tmp_path, cuts=30)
    assert counts["accepted"] == 0


@pytest.mark.slow
def test_no_damaged_file_causes_a_traceback(tmp_path):
    outcome = fuzz_commands(tmp_path, mutants=100)
    assert outcome.failures == []
