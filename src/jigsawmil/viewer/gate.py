"""Who is let in: a browser that calls the server by its own name, from a page of its own, and knows the token."""

import hmac
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


class Gate:
    """hosts: `name:port` by which the server may be called. token: in the address of the page; empty: none is asked."""

    def __init__(self, hosts: list[str], token: str) -> None:
        self.hosts, self.token = hosts, token

    def refusal(self, request: HTTPServerRequest) -> str:
        """Why a request is refused; empty if it is let in.

        Tornado lets in any page whose Origin is its Host, and asks nobody what the Host is: a name that an attacker
        points at this machine (DNS rebinding) would be both.
        """
        if request.host not in self.hosts:
            return f"This server answers as {self.hosts[0]}, not as another name."
        origin = request.headers.get("Origin")
        if origin is not None and urlsplit(origin).netloc not in self.hosts:
            return "Pages of other sites are not let in."
        if not self.token or request.path.startswith(FREE):
            return ""
        given = (request.arguments.get("token") or [b""])[-1]
        if hmac.compare_digest(given, self.token.encode()):
            return ""
        return "Open the address that `jigsawmil view` printed, with its token."

    def guard(self, application: Application) -> None:
        """Ask before every request, whatever handles it, and add the headers to every answer."""
        find_handler = application.find_handler

        def guarded(request: HTTPServerRequest, **more: Any) -> Any:
            if why := self.refusal(request):
                return application.get_handler_delegate(request, Refused, {"why": why})
            return find_handler(request, **more)

        application.find_handler = guarded  # type: ignore[method-assign]
        application.add_transform(WithHeaders)


class Refused(RequestHandler):
    """Says why."""

    def initialize(self, why: str) -> None:
        self.why = why

    def prepare(self) -> None:
        self.set_status(403)
        self.set_header("Content-Type", "text/plain; charset=UTF-8")
        self.finish(self.why + "\n")


class WithHeaders(OutputTransform):
    def transform_first_chunk(
        self, status_code: int, headers: HTTPHeaders, chunk: bytes, finishing: bool
    ) -> tuple[int, HTTPHeaders, bytes]:
        for name, value in HEADERS.items():
            headers[name] = value
        return status_code, headers, chunk
