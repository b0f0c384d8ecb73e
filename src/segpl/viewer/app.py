"""The web application: its addresses, and what each of them answers."""

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.middleware.trustedhost import TrustedHostMiddleware
from starlette.requests import Request
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from segpl.data.cases import Region
from segpl.data.reviews import Decision
from segpl.foundation.errors import UserError
from segpl.viewer.catalogue import Catalogue, Entry, Part
from segpl.viewer.percent import curves_file, read_percent, region_file
from segpl.viewer.predictions import Predictions
from segpl.viewer.protection import HOSTS, TokenRequired, TooLongError, add_headers, read_body
from segpl.viewer.reviewing import Reviewer, TooLargeError, numbers_at, unpack
from segpl.viewer.sources import Source
from segpl.viewer.volumes import OutsideError, Volumes

STATIC = Path(__file__).parent / "static"
MOST_JSON = 64_000
"""Bytes of a decision."""
PACKING = 1024
"""Bytes by which a packed mask may exceed its voxels: gzip's header, and blocks it cannot pack."""

TOO_LONG = 413


@dataclass(frozen=True, eq=False)
class Viewer:
    """Everything that the answers need."""

    catalogue: Catalogue
    volumes: Volumes
    predictions: Predictions
    reviewer: Reviewer


def build_app(viewer: Viewer, token: str) -> Starlette:
    """The application, with all its paths below the token."""
    answers = _Answers(viewer)
    scan = "/scans/{number:int}"
    routes = [
        Route("/", answers.page),
        Route("/api/list", answers.list),
        Route(f"/api{scan}", answers.scan),
        Route(f"/api{scan}/prediction", answers.prediction),
        Route(f"/api{scan}/prediction", answers.request_prediction, methods=["POST"]),
        Route(f"/api{scan}/decision", answers.decide, methods=["POST"]),
        Route(f"/api{scan}/label", answers.save_label, methods=["POST"]),
        Route(scan + "/channel/{index:int}", answers.channel),
        Route(scan + "/preview/{index:int}", answers.preview),
        Route(scan + "/region/{index:int}", answers.region),
        Route(scan + "/label", answers.label),
        Mount("/static", StaticFiles(directory=STATIC)),
    ]
    return Starlette(
        routes=[Mount(f"/{token}", routes=routes)],
        middleware=[
            Middleware(TrustedHostMiddleware, allowed_hosts=list(HOSTS), www_redirect=False),
            Middleware(TokenRequired, token=token),
            Middleware(BaseHTTPMiddleware, dispatch=add_headers),
        ],
        exception_handlers={
            UserError: _problem(422),
            OutsideError: _problem(403),
            TooLongError: _problem(TOO_LONG),
            TooLargeError: _problem(TOO_LONG),
            Exception: _unexpected,
        },
    )


def _problem(status: int) -> Callable[[Request, Exception], Response]:
    """An answer with one sentence for the reader."""

    def answer(_request: Request, error: Exception) -> Response:
        sentence = str(error) or "this is more than the mask of a scan can hold."
        # The rest of an upload that is too long would otherwise be read and thrown away.
        headers = {"Connection": "close"} if status == TOO_LONG else None
        return JSONResponse({"error": sentence}, status, headers)

    return answer


def _unexpected(_request: Request, error: Exception) -> Response:
    """The answer to a mistake in segpl itself."""
    return JSONResponse({"error": f"this should not have happened: {error!r}"}, 500)


def _in_thread(method: Callable[..., Response]) -> Callable[..., Any]:
    """Answer in a thread, so that reading one scan does not keep others waiting."""

    @wraps(method)
    async def answer(self: "_Answers", request: Request) -> Response:
        return await run_in_threadpool(method, self, request)

    return answer


class _Answers:
    """One method for each address."""

    def __init__(self, viewer: Viewer):
        self.viewer = viewer
        self.regions = viewer.catalogue.originals.task.regions

    async def page(self, _request: Request) -> Response:
        """The page itself."""
        return FileResponse(STATIC / "index.html")

    @_in_thread
    def list(self, _request: Request) -> Response:
        """All scans, and what they have in common."""
        catalogue = self.viewer.catalogue
        entries = catalogue.entries()
        source = catalogue.source
        labels = [entry for entry in entries if entry.label and entry.part is not Part.TEST]
        return JSONResponse(
            {
                "title": _title(source),
                "hasModel": source.runs is not None,
                "isRanked": source.ranking() is not None,
                "runs": str(source.runs) if source.runs else "",
                "channels": catalogue.originals.task.channels,
                "regions": _describe_regions(self.regions),
                "labels": len(labels),
                "reviewed": len([entry for entry in labels if entry.review]),
                "scans": [_summary(entry) for entry in entries],
            }
        )

    @_in_thread
    def scan(self, request: Request) -> Response:
        """The grid of a scan."""
        entry = self._entry(request)
        grid = self.viewer.volumes.grid(entry.case)
        details = {
            "shape": grid.shape,
            "spacing": grid.spacing,
            "isLarge": self.viewer.volumes.is_large(entry.case),
        }
        return JSONResponse(_summary(entry) | details)

    @_in_thread
    def prediction(self, request: Request) -> Response:
        """How far the prediction is and, when it is done, its curves."""
        number = self._number(request)
        state = self.viewer.predictions.state(number)
        answer: dict[str, Any] = state._asdict()
        if state.status == "done":
            file = curves_file(self.viewer.volumes.cache, number)
            answer["curves"] = json.loads(file.read_text(encoding="utf-8"))
        return JSONResponse(answer)

    @_in_thread
    def request_prediction(self, request: Request) -> Response:
        """Predict this scan next."""
        number = self._number(request)
        case = self.viewer.catalogue.case(number)
        for image in case.images:
            self.viewer.volumes.folders.check(image)
        return JSONResponse(self.viewer.predictions.request(number, case)._asdict())

    @_in_thread
    def channel(self, request: Request) -> Response:
        """One channel of the scan."""
        number = self._number(request)
        case = self.viewer.catalogue.case(number)
        return _volume(self.viewer.volumes.channel(number, case, self._channel(request)))

    @_in_thread
    def preview(self, request: Request) -> Response:
        """One channel of a large scan at a lower resolution."""
        number = self._number(request)
        case = self.viewer.catalogue.case(number)
        return _volume(self.viewer.volumes.preview(number, case, self._channel(request)))

    @_in_thread
    def label(self, request: Request) -> Response:
        """The label that a training would use now."""
        entry = self._entry(request)
        if entry.label is None:
            raise HTTPException(404)
        return _volume(self.viewer.volumes.label(entry.number, entry.case, entry.label))

    @_in_thread
    def region(self, request: Request) -> Response:
        """The probability of a region, in per cent."""
        index = int(request.path_params["index"])
        file = region_file(self.viewer.volumes.cache, self._number(request), index)
        if not file.is_file():
            raise HTTPException(404)
        return _volume(file)

    async def decide(self, request: Request) -> Response:
        """Accept the mask at the given thresholds, reject the scan, or take a review back."""
        body = await read_body(request, MOST_JSON)
        entry = await run_in_threadpool(self._reviewable, request)
        await run_in_threadpool(self._decide, entry, body)
        return JSONResponse({})

    def _decide(self, entry: Entry, body: bytes) -> None:
        decision, thresholds = _parse_decision(body, len(self.regions))
        reviewer = self.viewer.reviewer
        if decision is Decision.REJECTED:
            reviewer.reject(entry.case)
        elif decision is Decision.WITHDRAWN:
            reviewer.withdraw(entry.case)
        else:
            cache = self.viewer.volumes.cache
            if not curves_file(cache, entry.number).is_file():
                raise UserError(f"{entry.case.name} has no prediction yet: wait for it.")
            indices = range(len(self.regions))
            maps = [read_percent(region_file(cache, entry.number, index)) for index in indices]
            numbers = numbers_at(maps, thresholds)
            frame = self.viewer.volumes.frame(entry.case)
            reviewer.save_label(entry.case, decision, numbers, frame, thresholds)

    async def save_label(self, request: Request) -> Response:
        """Save the mask that was drawn."""
        entry = await run_in_threadpool(self._reviewable, request)
        shape = self.viewer.volumes.grid(entry.case).shape
        voxels = shape[0] * shape[1] * shape[2]
        body = await read_body(request, voxels + voxels // 1000 + PACKING)
        await run_in_threadpool(self._save_label, entry, body, shape)
        return JSONResponse({})

    def _save_label(self, entry: Entry, body: bytes, shape: tuple[int, int, int]) -> None:
        frame = self.viewer.volumes.frame(entry.case)
        numbers = unpack(body, shape)
        self.viewer.reviewer.save_label(entry.case, Decision.CORRECTED, numbers, frame)

    def _number(self, request: Request) -> int:
        number = int(request.path_params["number"])
        if not 0 <= number < len(self.viewer.catalogue):
            raise HTTPException(404)
        return number

    def _channel(self, request: Request) -> int:
        index = int(request.path_params["index"])
        if index >= len(self.viewer.catalogue.originals.task.channels):
            raise HTTPException(404)
        return index

    def _entry(self, request: Request) -> Entry:
        return self.viewer.catalogue.entry(self._number(request))

    def _reviewable(self, request: Request) -> Entry:
        """The scan of a review. Labels of test cases are never changed: scores depend on them."""
        entry = self._entry(request)
        if entry.part is Part.TEST:
            raise UserError(f"{entry.case.name} is a test case, whose label stays as it is.")
        return entry


def _parse_decision(body: bytes, regions: int) -> tuple[Decision, list[int]]:
    """A decision other than a correction, and the threshold of each region in per cent."""
    try:
        content = json.loads(body)
        decision = Decision(content["decision"])
        thresholds = [int(threshold) for threshold in content.get("thresholds", [])]
    except (AttributeError, KeyError, TypeError, ValueError, RecursionError):
        raise UserError("the decision is not one that segpl knows.") from None
    is_valid = all(0 <= threshold <= 100 for threshold in thresholds)
    if decision is Decision.CORRECTED or not is_valid:
        raise UserError("the decision is not one that segpl knows.")
    if decision is Decision.ACCEPTED and len(thresholds) != regions:
        raise UserError("the decision needs a threshold for each region.")
    return decision, thresholds


def _title(source: Source) -> str:
    if source.runs is None:
        return source.data.name
    return f"{source.runs.name} on {source.data.name}"


def _describe_regions(regions: Sequence[Region]) -> list[dict[str, Any]]:
    """The name of each region, and the numbers in a mask that belong to it: its own and others'."""
    described = []
    for region in regions:
        holds = []
        for number, other in enumerate(regions, start=1):
            if other is region or other.paint in region.values:
                holds.append(number)
        described.append({"name": region.name, "holds": holds})
    return described


def _summary(entry: Entry) -> dict[str, Any]:
    """What the list shows of a scan."""
    return {
        "number": entry.number,
        "name": entry.case.name,
        "part": entry.part,
        "rank": entry.rank,
        "reason": entry.reason,
        "dice": entry.dice,
        "hasLabel": entry.label is not None,
        "decision": entry.review.decision if entry.review else None,
    }


def _volume(file: Path) -> Response:
    """A file of voxels. The page unpacks it itself, so it is not declared as compressed."""
    return FileResponse(file, media_type="application/octet-stream")
