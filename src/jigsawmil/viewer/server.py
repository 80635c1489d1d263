"""The server: loopback unless another address is given, one page, Bokeh's own files, tiles by number, nothing else."""

import errno
import gc
import secrets
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

from bokeh.document import Document
from bokeh.server.server import Server
from bokeh.settings import settings
from tornado.ioloop import IOLoop
from tornado.web import HTTPError, RequestHandler

from ..errors import ConfigError, JigsawmilError
from .data import Library
from .gate import Gate
from .slides import inside

LOOPBACK = ("127.0.0.1", "localhost")
READERS = 3  # threads that cut tiles


class TileHandler(RequestHandler):
    """JPEG tiles: /tiles/<key>/<number of the slide>/<level>/<column>_<row>.jpg.

    The slide is a row of the run's table: nothing in an address is ever part of a path. The key is new in every
    server and told only to pages that were let in.
    """

    def initialize(self, library: Library, readers: ThreadPoolExecutor) -> None:
        self.library, self.readers = library, readers

    async def get(self, number: str, level: str, column: str, row: str) -> None:
        ids = self.library.run.slides["slide_id"]
        if self.library.slides is None or int(number) >= len(ids):
            raise HTTPError(404)
        wanted = str(ids.iloc[int(number)]), int(level), int(column), int(row)
        try:
            picture = await IOLoop.current().run_in_executor(self.readers, self._cut, *wanted)
        except JigsawmilError as error:
            raise HTTPError(404, log_message=str(error)) from error
        self.set_header("Content-Type", "image/jpeg")
        self.set_header("Cache-Control", "private, max-age=3600")
        self.finish(picture)

    def _cut(self, slide_id: str, level: int, column: int, row: int) -> bytes:
        slides = self.library.slides
        assert slides is not None
        if not inside(slides.get(slide_id), level, column, row):
            raise HTTPError(404)
        return slides.tile(slide_id, level, column, row)


def make_server(
    library: Library,
    page: Callable[[Document, Library, str], object],
    *,
    port: int,
    address: str | None = None,
    token: str = "",
) -> Server:
    """A server that listens, and serves once its loop runs. page: fills a document; gets the folder of the tiles.

    token: asked for in the address of the page, see `Gate`; empty: whoever reaches the server may look.
    """
    settings.resources = "server"  # never a network of strangers, whatever the environment says
    key = secrets.token_urlsafe(16)
    readers = ThreadPoolExecutor(READERS, "tiles")
    tiles: tuple[str, Any, dict[str, Any]] = (
        rf"/tiles/{key}/([0-9]{{1,7}})/([0-9]{{1,2}})/([0-9]{{1,6}})_([0-9]{{1,6}})\.jpg",
        TileHandler,
        {"library": library, "readers": readers},
    )

    def fill(document: Document) -> None:
        page(document, library, f"tiles/{key}")

    where = address or LOOPBACK[0]
    if ":" in where:  # Bokeh takes no such origin
        raise ConfigError(
            f"--address {where}: expected a host name or an IPv4 address. Give --address 0.0.0.0 for all."
        )
    try:
        port = _listenable(where, port)
        names = [f"{host}:{port}" for host in hosts(where)]
        server = Server(
            {"/": fill},
            port=port,
            address=where,
            allow_websocket_origin=names,
            extra_patterns=[tiles],
            sign_sessions=True,  # a websocket is for pages that were let in
            secret_key=secrets.token_bytes(32),
        )
    except OSError as error:
        raise ConfigError(_why(error, where, port)) from error
    allowed = [*names, *hosts(where)] if port == 80 else names
    Gate(allowed, token, lambda: [s.connection_count for s in server.get_sessions("/")]).guard(server._tornado)
    gc.collect()
    gc.freeze()  # Bokeh collects after every page that was left, and nothing of what is loaded by now ever goes
    return server


def hosts(address: str) -> list[str]:
    """By which names a browser may call a server that listens there; pages from elsewhere are refused."""
    if address in LOOPBACK:
        return list(LOOPBACK)
    if address != "0.0.0.0":
        return [address]
    names = [socket.gethostname(), socket.getfqdn(), *LOOPBACK]
    with suppress(OSError):  # a machine that does not know its own name
        names += [str(entry[4][0]) for entry in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)]
    return list(dict.fromkeys(names))


def _listenable(address: str, port: int) -> int:
    """The port, or a free one for 0; an error where nobody may listen. Known before the server is made, which names it
    in the origins that it lets in."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # a viewer that has just ended is no obstacle
        probe.bind((address, port))
        return int(probe.getsockname()[1])


def _why(error: OSError, address: str, port: int) -> str:
    if error.errno == errno.EADDRINUSE:
        return (
            f"port {port} of {address} is taken, perhaps by another viewer. Give another one with --port, or --port 0."
        )
    if error.errno == errno.EACCES:
        return f"port {port}: not allowed to listen there. Give one from 1024 on with --port."
    return f"{address}:{port}: cannot listen there ({error.strerror or error}). Give an address of this machine."
