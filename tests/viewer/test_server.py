"""The server lets in whom it should, and gives out a page, Bokeh's files and tiles."""

import http.client
import re
import socket
from collections.abc import Callable
from contextlib import closing
from types import SimpleNamespace
from typing import Any

import pytest
from bokeh.util.token import generate_jwt_token

from jigsawmil.errors import ConfigError
from jigsawmil.study.run import Run
from jigsawmil.viewer import gate
from jigsawmil.viewer.data import Library
from jigsawmil.viewer.server import hosts, make_server


def get(server: Any, path: str, host: str | None = None) -> tuple[int, bytes, dict[str, str]]:
    """As it stands: no client tidies the dots away."""
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        connection.putrequest("GET", path, skip_accept_encoding=True, skip_host=host is not None)
        if host is not None:
            connection.putheader("Host", host)
        connection.endheaders()
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}


def tiles(server: Any) -> str:
    """The folder of the tiles, which only a page is told."""
    patterns = [rule.matcher.regex.pattern for rule in server._tornado.wildcard_router.rules]
    return re.match(r"/tiles/[\w-]+", next(pattern for pattern in patterns if "tiles" in pattern)).group()


def test_tiles_are_given_by_number(server: Any) -> None:
    status, body, headers = get(server, f"{tiles(server)}/0/0/0_0.jpg")
    assert status == 200
    assert body.startswith(b"\xff\xd8")
    assert headers["content-type"] == "image/jpeg"
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"


@pytest.mark.parametrize(
    "wanted",
    [
        "/0/0/999_0.jpg", "/0/0/0_999.jpg", "/0/9/0_0.jpg", "/999/0/0_0.jpg", "/9999999/0/0_0.jpg",
        "/5/0/0_0.jpg",  # a slide of the run that is not in the folder
        "/-1/0/0_0.jpg", "/0/0/-1_0.jpg", "/0001/0/0_0.png", "/x/0/0_0.jpg", "/../0/0/0_0.jpg",
        "/..%2f..%2fetc%2fpasswd/0/0_0.jpg", "/%2e%2e/0/0_0.jpg", "//etc/passwd/0/0_0.jpg", "/0/0/0_0.jpg/../../x",
        "/0/0/..%2f0_0.jpg", "/0/0/0_0.jpg%00", "/%D9%A3/0/0_0.jpg", "", "/",
    ],
)  # fmt: skip
def test_nothing_but_tiles_that_are_there(server: Any, wanted: str) -> None:
    status, body, _ = get(server, tiles(server) + wanted)
    assert status in (400, 404)
    assert b"JFIF" not in body


@pytest.mark.parametrize(
    "path",
    [
        "/tiles/0/0/0_0.jpg", "/tiles/guessed/0/0/0_0.jpg", "/run/study.json", "/study.json", "/predictions.csv",
        "/../run/study.json", "/etc/passwd", "//etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd",
        "/static/../../../../../../../etc/passwd", "/static/%2e%2e/%2e%2e/%2e%2e/__init__.py", "/static//etc/passwd",
        "/static/..%2f..%2f..%2f..%2f..%2f..%2fetc%2fpasswd", "/slides/0001.png", "/static/extensions/../x",
    ],
)  # fmt: skip
def test_nothing_else_is_served(server: Any, path: str) -> None:
    status, body, _ = get(server, path)
    assert status in (400, 403, 404), path
    assert b"root:" not in body


def test_without_slides_there_are_no_tiles(run: Run, serve: Callable[..., Any]) -> None:
    with serve(Library(run)) as running:
        assert get(running, f"{tiles(running)}/0/0/0_0.jpg")[0] == 404
        assert get(running, "/")[0] == 200


def test_the_page_names_no_other_machine(server: Any, monkeypatch) -> None:
    _, body, _ = get(server, "/")
    text = body.decode()
    assert "static/js/bokeh" in text
    assert not re.findall(r"(?:src|href)=[\"']?(?:https?:)?//", text)
    assert tiles(server) not in text  # told over the websocket alone


def test_the_environment_cannot_send_the_browser_elsewhere(
    library: Library, serve: Callable[..., Any], monkeypatch
) -> None:
    monkeypatch.setenv("BOKEH_RESOURCES", "cdn")
    with serve(library) as running:
        assert b"cdn.bokeh.org" not in get(running, "/")[1]


def let_in(server: Any, token: str, origin: str, host: str | None = None) -> bool:
    """Whether a page of that origin gets its websocket, though it knows the token of a session."""
    wanted = {
        "Host": host or f"127.0.0.1:{server.port}",
        "Connection": "Upgrade", "Upgrade": "websocket", "Origin": origin, "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Protocol": f"bokeh, {token}",
    }  # fmt: skip
    with closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)) as connection:
        connection.request("GET", "/ws", headers=wanted)
        with connection.getresponse() as answer:
            return answer.status == 101


def test_pages_of_other_origins_are_not_let_in(server: Any) -> None:
    token = re.search(rb'"token":"([^"]+)"', get(server, "/")[1]).group(1).decode()
    port = server.port
    assert let_in(server, token, f"http://127.0.0.1:{port}")
    assert let_in(server, token, f"http://localhost:{port}")
    for origin in ("http://example.com", f"http://example.com:{port}", f"http://127.0.0.1:{port + 1}", "null"):
        assert not let_in(server, token, origin)


def test_a_name_that_an_attacker_points_at_this_machine_is_not_let_in(server: Any) -> None:
    """DNS rebinding: Origin and Host agree, and are both another's."""
    token = re.search(rb'"token":"([^"]+)"', get(server, "/")[1]).group(1).decode()
    evil = f"evil.example:{server.port}"
    assert not let_in(server, token, f"http://{evil}", host=evil)
    paths = ("/", "/static/js/bokeh.min.js", f"{tiles(server)}/0/0/0_0.jpg")
    for host in (evil, "evil.example", "", "127.0.0.1", f"127.0.0.1.evil.example:{server.port}"):
        assert [get(server, path, host)[0] for path in paths] == [403] * 3, host
    assert [get(server, path)[0] for path in paths] == [200] * 3


def test_a_session_that_the_server_did_not_make_is_none(server: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Bokeh shakes hands first, looks at the signature, and hangs up."""
    let_in(server, generate_jwt_token("mine", signed=False), f"http://127.0.0.1:{server.port}")
    get(server, "/")  # the one thread of the server has done with it by then
    assert "Token for session 'mine' had invalid signature" in caplog.text
    assert "mine" not in [session.id for session in server.get_sessions("/")]


def test_the_page_wants_its_token(library: Library, serve: Callable[..., Any]) -> None:
    with serve(library, token="secret") as running:
        for path in ("/", "/?token=", "/?token=wrong", "/autoload.js?bokeh-autoload-element=1", "/metadata"):
            status, body, _ = get(running, path)
            assert (status, b"slide" in body) == (403, False), path
        status, body, headers = get(running, "/?token=secret")
        assert status == 200
        assert b"secret" not in body
        assert headers["content-security-policy"] == "frame-ancestors 'none'"
        assert headers["referrer-policy"] == "no-referrer"
        token = re.search(rb'"token":"([^"]+)"', body).group(1).decode()
        assert let_in(running, token, f"http://127.0.0.1:{running.port}")


def test_pages_that_nobody_waits_for_do_not_stop_the_server(
    library: Library, serve: Callable[..., Any], monkeypatch
) -> None:
    """A hundred are asked for: a few are made, the others cost nothing, and it answers all the while."""
    monkeypatch.setattr(gate, "WAITING", 2)
    with serve(library, token="secret") as running:
        wanted = [get(running, "/?token=secret")[0] for _ in range(100)]
        assert wanted == [200] * 2 + [503] * 98
        assert len(running.get_sessions("/")) == 2
        assert b"Wait half a minute" in get(running, "/?token=secret")[1]
        assert get(running, "/static/js/bokeh.min.js")[0] == 200
        assert get(running, "/")[0] == 403


@pytest.mark.parametrize(
    ("connections", "words"),
    [([1] * 24, "24 pages of this viewer are open"), ([0] * 50, "Too many"), ([1] * 9 + [0], "")],
)
def test_only_so_many_pages_at_a_time(connections: list[int], words: str) -> None:
    asked = gate.Gate(["here:1"], "", lambda: connections)
    assert asked.crowded(SimpleNamespace(path="/")).startswith(words)
    assert bool(asked.crowded(SimpleNamespace(path="/"))) == bool(words)
    assert asked.crowded(SimpleNamespace(path="/static/x.js")) == ""


def test_it_listens_on_loopback_alone(server: Any) -> None:
    assert server.address == "127.0.0.1"
    listening = {end.getsockname()[0] for end in server._http._sockets.values()}
    assert listening == {"127.0.0.1"}


def test_names_by_which_a_server_may_be_called() -> None:
    assert hosts("127.0.0.1") == hosts("localhost") == ["127.0.0.1", "localhost"]
    assert hosts("10.1.2.3") == ["10.1.2.3"]
    assert {socket.gethostname(), "127.0.0.1"} <= set(hosts("0.0.0.0"))
    assert not any("*" in name for name in hosts("0.0.0.0"))


def test_a_port_that_is_taken_is_said(library: Library, server: Any) -> None:
    with pytest.raises(ConfigError, match=rf"port {server.port} of 127.0.0.1 is taken.*--port"):
        make_server(library, lambda *_: None, port=server.port)


@pytest.mark.parametrize(("address", "words"), [("192.0.2.1", "cannot listen there"), ("::1", "expected a host name")])
def test_an_address_of_another_machine_is_said(library: Library, address: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        make_server(library, lambda *_: None, port=0, address=address)
