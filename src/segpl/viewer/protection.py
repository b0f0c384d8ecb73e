"""Who may talk to the server: the browser that was given its address, and no other page.

The server listens on the loopback interface only, and every path starts with a random token. A
request with another host name is refused, so that a foreign page cannot reach the server through a
name of its own (DNS rebinding); a write must come from a page of the server itself.
"""

import secrets
from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send

HOSTS = ("127.0.0.1", "localhost")
FORBIDDEN = "Open the address that segpl view has printed.\n"

CONTENT_POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self' 'wasm-unsafe-eval'",  # NiiVue unpacks some formats with WebAssembly
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "font-src 'self' data:",
        "connect-src 'self' data: blob:",  # NiiVue carries its font as data
        "worker-src 'self' blob:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
    )
)
HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",  # scans of patients do not belong in the browser's cache
}
WRITE_TYPES = ("application/json", "application/octet-stream")
"""A form of a foreign page cannot send these without asking first, and is then refused."""


class TooLongError(Exception):
    """A request whose body is longer than allowed."""


def new_token() -> str:
    """A token that cannot be guessed."""
    return secrets.token_urlsafe(32)


class TokenRequired:
    """Refuses every path that does not start with the token."""

    def __init__(self, app: ASGIApp, token: str):
        self.app = app
        self.token = token

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer 403, or pass the request on."""
        if scope["type"] == "http" and not self._has_token(scope["path"]):
            await PlainTextResponse(FORBIDDEN, 403, HEADERS)(scope, receive, send)
            return
        await self.app(scope, receive, send)

    def _has_token(self, path: str) -> bool:
        first = path.removeprefix("/").partition("/")[0]
        return secrets.compare_digest(first.encode(), self.token.encode())


async def add_headers(
    request: Request, call_next: Callable[[Request], Awaitable[Response]]
) -> Response:
    """Answer with the headers that keep the page to itself; refuse writes of other pages."""
    if request.method not in ("GET", "HEAD") and not _is_own_write(request):
        return PlainTextResponse("Only the page itself may write.\n", 403, HEADERS)
    response = await call_next(request)
    response.headers.update(HEADERS)
    return response


def _is_own_write(request: Request) -> bool:
    own_origin = f"{request.url.scheme}://{request.url.netloc}"
    is_same_origin = request.headers.get("origin", own_origin) == own_origin
    is_same_site = request.headers.get("sec-fetch-site", "same-origin") == "same-origin"
    content_type = request.headers.get("content-type", "").partition(";")[0]
    return is_same_origin and is_same_site and content_type in WRITE_TYPES


async def read_body(request: Request, most_bytes: int) -> bytes:
    """The body of a request, of which no more than `most_bytes` are ever held."""
    claimed = request.headers.get("content-length", "0")
    if not claimed.isdigit() or int(claimed) > most_bytes:
        raise TooLongError
    body = bytearray()
    async for chunk in request.stream():
        body += chunk
        if len(body) > most_bytes:
            raise TooLongError
    return bytes(body)
