"""Servers for the tests: in a thread of the test, or as a user starts one."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from urllib.parse import urlsplit

import nibabel
import numpy as np
import pytest

from segpl.data.cases import Region, Task
from segpl.data.layouts.nnunet_writer import write_description
from segpl.foundation.files import write_nifti
from segpl.viewer.sources import find_source

uvicorn = pytest.importorskip("uvicorn", reason="the extra view is not installed")

from segpl.viewer.app import build_app  # noqa: E402
from segpl.viewer.serving import make_viewer  # noqa: E402

SHAPE = (28, 22, 18)
TASK = Task(("MR",), (Region("organ", (1, 3), 1), Region("lesion", (3,), 3)))
TOKEN = "a-token-that-only-tests-know"

# Oblique, flipped and anisotropic: the first axis runs mostly to the left, the second to the feet,
# the third to the front, with steps of 1.5, 3 and 0.8 mm.
ROTATION = np.array([[-0.96, 0.10, 0.26], [0.24, -0.20, 0.95], [0.15, -0.97, -0.17]])
OBLIQUE = np.eye(4)
OBLIQUE[:3, :3] = np.linalg.qr(ROTATION)[0] * np.sign(np.diag(np.linalg.qr(ROTATION)[1]))
OBLIQUE[:3, :3] *= (1.5, 3.0, 0.8)
OBLIQUE[:3, 3] = (31.0, -12.5, 7.25)


def landmark():
    """A box without symmetry: where it is in the file is where it must be in the label."""
    box = np.zeros(SHAPE, dtype=bool)
    box[5:12, 3:17, 4:9] = True
    return box


def oblique_scan(seed):
    noise = np.random.default_rng(seed).normal(100, 10, SHAPE)
    return np.rint(noise + 800 * landmark()).astype(np.int16)


def write_data(folder):
    """One labelled and two unlabelled scans in `imagesTr`, one in `imagesUn`, one test case."""
    for name in ("anna", "ben", "cleo"):
        write_nifti(folder / f"imagesTr/{name}_0000.nii.gz", oblique_scan(len(name)), OBLIQUE)
    write_nifti(folder / "imagesUn/dora_0000.nii.gz", oblique_scan(5), OBLIQUE)
    write_nifti(folder / "imagesTs/emil_0000.nii.gz", oblique_scan(6), OBLIQUE)
    label = landmark().astype(np.uint8)
    label[6:8, 5:9, 5:7] = 3
    write_nifti(folder / "labelsTr/anna.nii.gz", label, OBLIQUE)
    write_nifti(folder / "labelsTs/emil.nii.gz", label, OBLIQUE)
    write_description(folder, TASK, labelled_cases=1)
    return folder


@pytest.fixture
def data(tmp_path):
    return write_data(tmp_path / "data")


class Client:
    """Asks a server, by default as its own page does."""

    def __init__(self, port, token):
        self.port = port
        self.token = token

    def request(self, method, path, body=None, **headers):
        """Status, headers and content of the answer to a path below the token."""
        return self.raw(method, f"/{self.token}/{path}", body, **headers)

    def raw(self, method, path, body=None, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(method, path, body, headers)
        answer = connection.getresponse()
        content = answer.read()
        connection.close()
        return answer.status, answer.headers, content

    def get_json(self, path):
        status, _, content = self.request("GET", path)
        assert status == 200, content
        return json.loads(content)

    def post(self, path, content):
        """Post JSON, or the bytes of a mask; return the status and what the answer says."""
        kind = "octet-stream" if isinstance(content, bytes) else "json"
        body = content if isinstance(content, bytes) else json.dumps(content).encode()
        headers = {"Content-Type": f"application/{kind}"}
        status, _, answer = self.request("POST", path, body, **headers)
        return status, json.loads(answer)

    def number(self, name):
        """The number by which the page asks for a scan."""
        (scan,) = [scan for scan in self.get_json("api/list")["scans"] if scan["name"] == name]
        return scan["number"]


@contextmanager
def server_in_thread(path, cache, reviewer=""):
    """Serve a run or data folder on a free port, and yield a client."""
    cache.mkdir()
    viewer = make_viewer(find_source(path), cache, reviewer)
    config = uvicorn.Config(build_app(viewer, TOKEN), port=0, log_level="critical")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run)
    thread.start()
    while not server.started:
        time.sleep(0.02)
    try:
        yield Client(server.servers[0].sockets[0].getsockname()[1], TOKEN)
    finally:
        viewer.predictions.close()
        server.should_exit = True
        thread.join()


@pytest.fixture
def client(data, tmp_path):
    with server_in_thread(data, tmp_path / "cache", reviewer="Dr Who") as client:
        yield client


@contextmanager
def segpl_view(*words):
    """Run `segpl view` as a user does, and yield the address that it prints."""
    command = [sys.executable, "-m", "segpl", "view", *map(str, words), "--no-browser"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, env=environment, encoding="utf-8"
    ) as process:
        assert process.stdout is not None
        match = re.search(r"http://\S+", process.stdout.readline())
        assert match, "segpl view has printed no address"
        yield match[0]
        process.send_signal(signal.SIGINT)
        process.wait(timeout=60)


def client_of(address):
    parts = urlsplit(address)
    return Client(parts.port, parts.path.strip("/"))


def read_label(file):
    return np.asarray(nibabel.load(file).dataobj)
