"""Who is let in: a browser that calls the server by its own name, from a page of its own, and knows the token."""

import hmac
from collections.abc import Callable, Sequence
from typing import Any
from urllib.parse import urlsplit

from tornado.httputil import HTTPHeaders, HTTPServerRequest
from tornado.web import Application, OutputTransform, RequestHandler

FREE = ("/static/", "/tiles/", "/ws")  # Bokeh's files; the tiles have a key of their own, and so has the websocket
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Content-Security-Policy": "frame-ancestors 'none'",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",  # the token is in the address
}


PAGES = ("/", "/autoload.js")  # what takes the server's one thread a second to make, and another to discard
WAITING = 5  # pages that no browser has opened yet, or that it has left; they go after some 20 seconds
OPEN = 24  # pages that browsers look at


class Gate:
    """hosts: `name:port` by which the server may be called. token: in the address of the page; empty: none is asked.
    connections: of each page that was made, how many browsers look at it."""

    def __init__(self, hosts: list[str], token: str, connections: Callable[[], Sequence[int]] = tuple) -> None:
        self.hosts, self.token, self.connections = hosts, token, connections

    def refusal(self, request: HTTPServerRequest) -> str:
        """Why a request is refused; empty if it is let in.

        Tornado lets in any page whose Origin is its Host, and asks nobody what the Host is: a name that an attacker
        points at this machine (DNS rebinding) would be both.
        """
        if request.host not in self.hosts:
            return f"This server is reached as {self.hosts[0]}, not under another name."
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc not in self.hosts:
            return "Requests from other web sites are refused."
        if not self.token or request.path.startswith(FREE):
            return ""
        given = (request.arguments.get("token") or [b""])[-1]
        if hmac.compare_digest(given, self.token.encode()):
            return ""
        return "Open the address that `jigsawmil view` printed, with its token."

    def crowded(self, request: HTTPServerRequest) -> str:
        """Why a page is not made now; empty if it is."""
        if request.path not in PAGES:
            return ""
        made = self.connections()
        if made.count(0) >= WAITING:
            return "Too many pages were opened and abandoned. Wait half a minute, then reload."
        if len(made) >= OPEN:
            return f"{len(made)} pages of this viewer are open. Close some, then reload."
        return ""

    def guard(self, application: Application) -> None:
        """Ask before every request, whatever handles it, and add the headers to every answer."""
        find_handler = application.find_handler

        def guarded(request: HTTPServerRequest, **more: Any) -> Any:
            if why := self.refusal(request):
                return application.get_handler_delegate(request, Refused, {"status": 403, "why": why})
            if why := self.crowded(request):
                return application.get_handler_delegate(request, Refused, {"status": 503, "why": why})
            return find_handler(request, **more)

        application.find_handler = guarded  # type: ignore[method-assign]
        application.add_transform(WithHeaders)


class Refused(RequestHandler):
    """Says why."""

    def initialize(self, status: int, why: str) -> None:
        self.status, self.why = status, why

    def prepare(self) -> None:
        self.set_status(self.status)
        self.set_header("Content-Type", "text/plain; charset=UTF-8")
        self.finish(self.why + "\n")


class WithHeaders(OutputTransform):
    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        for name, value in HEADERS.items():
            headers[name] = value
        return status_code, headers, chunk
