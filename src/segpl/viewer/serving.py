"""Starts the server on the loopback interface, and opens the page."""

import socket
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from segpl.data.cases import Dataset
from segpl.data.formats.image import split_array_name
from segpl.data.reviews import review_folder
from segpl.foundation.errors import UserError
from segpl.viewer.catalogue import Catalogue
from segpl.viewer.niivue import require_niivue
from segpl.viewer.sources import Source, find_source
from segpl.viewer.volumes import Folders, Volumes

if TYPE_CHECKING:
    from segpl.viewer.app import Viewer

ADDRESS = "127.0.0.1"


def serve(
    path: Path,
    port: int,
    reviewer: str,
    when_ready: Callable[[str], None],
) -> Path | None:
    """Serve the page until Ctrl-C, and return the run that was viewed, if there was one.

    `when_ready` gets the address of the page. Port 0 takes a free one.
    """
    require_niivue()
    _require_server()
    import uvicorn

    from segpl.viewer.app import build_app
    from segpl.viewer.protection import new_token

    source = find_source(path)
    token = new_token()
    listener = _listen(port)
    with tempfile.TemporaryDirectory(prefix="segpl-view-") as cache:
        viewer = make_viewer(source, Path(cache), reviewer)
        app = build_app(viewer, token)
        # The page shows what goes wrong, so the terminal need not show tracebacks.
        config = uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1)
        when_ready(f"http://{ADDRESS}:{listener.getsockname()[1]}/{token}/")
        try:
            uvicorn.Server(config).run(sockets=[listener])
        except KeyboardInterrupt:  # the way to end it
            pass
        finally:
            viewer.predictions.close()
    return source.runs


def make_viewer(source: Source, cache: Path, reviewer: str) -> "Viewer":
    """Everything that the server's answers need; files that it makes go to `cache`."""
    from segpl.viewer.app import Viewer
    from segpl.viewer.predictions import Predictions
    from segpl.viewer.reviewing import Reviewer

    catalogue = Catalogue(source)
    dataset = catalogue.originals
    folders = _allowed_folders(source.data, dataset)
    return Viewer(
        catalogue=catalogue,
        volumes=Volumes(folders, cache, dataset.task.regions),
        predictions=Predictions(source, cache),
        reviewer=Reviewer(dataset, str(source.runs or ""), reviewer),
    )


def _listen(port: int) -> socket.socket:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((ADDRESS, port))
    except OSError as error:
        listener.close()
        raise UserError(
            f"port {port} cannot be used ({error.strerror}): choose another --port."
        ) from None
    return listener


def _allowed_folders(data: Path, dataset: Dataset) -> Folders:
    """The data folder and its reviews. A manifest also names files that are elsewhere."""
    folders = [data, review_folder(data)]
    if not data.is_dir():
        for case in dataset.training + dataset.test:
            for file in (*case.images, case.label):
                if file is not None:
                    path, _ = split_array_name(file)
                    folders.append(path.parent)
    return Folders.of(dict.fromkeys(folders))


def _require_server() -> None:
    try:
        import starlette  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError:
        raise UserError(
            "segpl view needs Starlette and uvicorn: pip install '.[view]' in segpl's folder."
        ) from None
