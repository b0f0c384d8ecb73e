"""Who the server refuses, and what it refuses to send or to take."""

import gzip
import os
import socket
from contextlib import suppress

import numpy as np
import pytest
from conftest import SHAPE, TOKEN, server_in_thread

from segpl.viewer.volumes import Folders, OutsideError

JSON = {"Content-Type": "application/json"}
TEN_GB = 10 * 10**9
BLOCK = os.urandom(65536)


def test_its_own_page_is_answered(client):
    status, headers, content = client.request("GET", "")
    assert status == 200
    assert b"segpl view" in content
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "unsafe-inline" not in headers["Content-Security-Policy"]
    assert headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("host", ["evil.example", "evil.example:80", "127.0.0.1.evil.example", ""])
def test_another_host_name_is_refused(client, host):
    assert client.request("GET", "api/list", Host=host)[0] == 400


@pytest.mark.parametrize("path", ["/", "/api/list", f"/{TOKEN[:-1]}/api/list", "/static/app.js"])
def test_a_missing_or_wrong_token_is_refused(client, path):
    assert client.raw("GET", path)[0] == 403


@pytest.mark.parametrize(
    "path",
    [
        "static/../app.py",
        "static/..%2fapp.py",
        "static/%2e%2e/app.py",
        "static//etc/passwd",
        "scans/../../../../etc/passwd",
        "scans/..%2f..%2fetc%2fpasswd/channel/0",
        "scans/-1/channel/0",
        "scans/999/channel/0",
        "scans/0/channel/9",
    ],
)
def test_a_path_that_leaves_the_folder_finds_nothing(client, path):
    status, _, content = client.request("GET", path)
    assert status == 404
    assert b"root:" not in content
    assert b"import" not in content


def test_a_symlink_out_of_the_data_folder_is_refused(data, tmp_path):
    outside = tmp_path / "outside.nii.gz"
    image = data / "imagesTr/ben_0000.nii.gz"
    image.rename(outside)
    image.symlink_to(outside)
    with server_in_thread(data, tmp_path / "cache") as client:
        for what in ("channel/0", "preview/0"):
            status, _, content = client.request("GET", f"scans/{client.number('ben')}/{what}")
            assert status == 403
            assert b"outside the data folder" in content


@pytest.mark.parametrize("image", ["series", "case.h5#image"])
def test_links_in_a_series_or_behind_an_array_are_refused_too(tmp_path, image):
    outside = tmp_path / "secret"
    outside.write_bytes(b"")
    data = tmp_path / "data"
    (data / "series").mkdir(parents=True)
    (data / "series/1.dcm").symlink_to(outside)
    (data / "case.h5").symlink_to(outside)
    with pytest.raises(OutsideError, match="outside the data folder"):
        Folders.of([data]).check(data / image)


def test_a_symlink_inside_the_data_folder_is_followed(data, tmp_path):
    image = data / "imagesTr/ben_0000.nii.gz"
    image.rename(data / "stored.nii.gz")
    image.symlink_to("../stored.nii.gz")
    with server_in_thread(data, tmp_path / "cache") as client:
        assert client.request("GET", f"scans/{client.number('ben')}/channel/0")[0] == 200


def test_an_upload_that_claims_10_gb_is_refused_at_once(client):
    path = f"api/scans/{client.number('ben')}/label"
    status, _ = upload(client, path, f"Content-Length: {TEN_GB}", blocks=0)
    assert status == 413


def test_an_upload_of_10_gb_in_pieces_is_cut_at_the_size_of_the_scan(client, data):
    path = f"api/scans/{client.number('ben')}/label"
    status, sent = upload(client, path, "Transfer-Encoding: chunked", blocks=TEN_GB // len(BLOCK))
    assert status in (413, None)  # None: the connection was closed before the answer was read
    assert sent * len(BLOCK) < 50_000_000  # what the buffers of the system may have taken
    assert not (data / "reviewed").exists()
    assert client.request("GET", "api/list")[0] == 200  # the server is alive


def upload(client, path, length_header, blocks):
    """Send random blocks until the server hangs up; return its status and how many it took."""
    lines = [
        f"POST /{TOKEN}/{path} HTTP/1.1",
        f"Host: 127.0.0.1:{client.port}",
        "Content-Type: application/octet-stream",
        length_header,
    ]
    sent = 0
    answer = b""
    with socket.create_connection(("127.0.0.1", client.port), timeout=60) as connection:
        with suppress(OSError):
            connection.sendall("\r\n".join([*lines, "", ""]).encode())
            for _ in range(blocks):
                connection.sendall(b"%x\r\n%b\r\n" % (len(BLOCK), BLOCK))
                sent += 1
        with suppress(OSError):
            answer = connection.recv(200)
    return (int(answer.split()[1]) if answer else None), sent


def test_a_mask_that_unpacks_to_more_than_the_scan_is_refused(client):
    bomb = gzip.compress(bytes(10**7))
    assert len(bomb) < np.prod(SHAPE)
    status, answer = client.post(f"api/scans/{client.number('ben')}/label", bomb)
    assert status == 413
    assert "more voxels" in answer["error"]


@pytest.mark.parametrize(
    "headers",
    [
        {"Content-Type": "text/plain"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {},
        JSON | {"Origin": "http://evil.example"},
        JSON | {"Sec-Fetch-Site": "cross-site"},
    ],
)
def test_a_write_of_another_page_is_refused(client, data, headers):
    path = f"api/scans/{client.number('ben')}/decision"
    body = b'{"decision": "rejected"}'
    assert client.request("POST", path, body, **headers)[0] == 403
    assert not (data / "reviewed").exists()


def test_a_read_cannot_decide(client):
    path = f"api/scans/{client.number('ben')}/decision"
    assert client.request("GET", path)[0] == 405


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"{}", b'{"decision": "burnt"}', b'{"decision": "corrected"}', b"[" * 9999]
)
def test_a_decision_that_makes_no_sense_is_refused(client, data, body):
    path = f"api/scans/{client.number('ben')}/decision"
    assert client.request("POST", path, body, **JSON)[0] == 422
    assert not (data / "reviewed").exists()
