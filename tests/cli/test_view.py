"""The verb `view`: what it refuses before anything listens, and what it says when it does."""

import dataclasses
import re
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from PIL import Image

from jigsawmil.viewer import server


class Loop:
    """Stands for a server's loop: Ctrl-C at once."""

    def start(self) -> None:
        raise KeyboardInterrupt


@dataclasses.dataclass
class Made:
    library: Any
    port: int
    address: str | None
    token: str
    stopped: bool = False
    io_loop: Loop = dataclasses.field(default_factory=Loop)

    def start(self) -> None:
        pass

    def stop(self) -> None:
        self.stopped = True


@pytest.fixture
def made(monkeypatch) -> Iterator[list[Made]]:
    """The servers that would have been made."""
    servers: list[Made] = []

    def make(library: Any, page: Any, *, port: int, address: str | None = None, token: str = "") -> Made:
        servers.append(Made(library, port, address, token))
        return servers[-1]

    monkeypatch.setattr(server, "make_server", make)
    return servers


def test_a_run_is_served_until_ctrl_c(jigsawmil: Callable[..., Any], finished: Any, made: list[Made]) -> None:
    ran = jigsawmil("view", finished[0], "--port", 5017)
    assert ran.code == 0, ran.err
    assert len(made[0].token) > 16
    assert f"http://127.0.0.1:5017/?token={made[0].token} " in ran.out
    assert "can reach" not in ran.out
    assert made[0].address is None
    assert made[0].stopped


def test_whoever_opens_it_to_others_is_warned(jigsawmil: Callable[..., Any], finished: Any, made: list[Made]) -> None:
    ran = jigsawmil("view", finished[0], "--address", "0.0.0.0")
    assert made[0].address == "0.0.0.0"
    words = re.sub(r"\s+", " ", ran.out)
    assert (
        "Anyone who has the address below and can reach 0.0.0.0:5006 sees the slides, labels and predictions" in words
    )
    assert "nothing is encrypted" in words
    ran = jigsawmil("view", finished[0], "--address", "0.0.0.0", "--no-token")
    assert "Anyone who can reach 0.0.0.0:5006" in ran.out
    assert "http://0.0.0.0:5006/ " in ran.out
    assert made[1].token == ""


def test_it_says_how_many_slides_it_found(
    jigsawmil: Callable[..., Any], finished: Any, made: list[Made], tmp_path: Path
) -> None:
    ids = pd.read_csv(finished[0] / "slides.csv", dtype=str)["slide_id"]
    Image.new("RGB", (8, 8)).save(tmp_path / f"{ids[0]}.png")
    Image.new("RGB", (8, 8)).save(tmp_path / "stranger.png")
    ran = jigsawmil("view", finished[0], "--slides", tmp_path)
    assert f"1 of {len(ids)} slides of the run are in" in ran.out


def test_a_missing_run_is_told(jigsawmil: Callable[..., Any], tmp_path: Path, made: list[Made]) -> None:
    for path, words in ((tmp_path / "absent", "no such folder"), (tmp_path, "no study.json in it")):
        ran = jigsawmil("view", path)
        assert ran.code == 1
        assert words in ran.err
        assert "jigsawmil compare" in ran.err
    assert not made


def test_missing_slides_and_features_are_told(
    jigsawmil: Callable[..., Any], finished: Any, tmp_path: Path, made: list[Made]
) -> None:
    ran = jigsawmil("view", finished[0], "--slides", tmp_path / "absent")
    assert (ran.code, "no such folder" in ran.err, "--slides" in ran.err) == (1, True, True)
    ran = jigsawmil("view", finished[0], "--slides", tmp_path)
    assert (ran.code, "no slides in it" in ran.err) == (1, True)
    ran = jigsawmil("view", finished[0], "--features", tmp_path / "absent")
    assert (ran.code, "no such folder" in ran.err) == (1, True)
    assert not made


def test_a_port_that_is_taken_is_told(jigsawmil: Callable[..., Any], finished: Any) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        ran = jigsawmil("view", finished[0], "--port", port)
    assert ran.code == 1
    assert f"port {port} of 127.0.0.1 is taken" in ran.err
    assert "--port" in ran.err


def test_an_impossible_port_is_a_usage_error(jigsawmil: Callable[..., Any], finished: Any) -> None:
    assert jigsawmil("view", finished[0], "--port", 70000).code == 2
