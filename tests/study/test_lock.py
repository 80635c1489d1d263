"""Two runs never write into one folder at once; a run that died leaves nothing locked."""

import subprocess
import sys
from pathlib import Path

import pytest

from jigsawmil.errors import StudyError
from jigsawmil.study.lock import alone_in

HOLD = """
import sys
from pathlib import Path
from jigsawmil.study.lock import alone_in
with alone_in(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    with alone_in(tmp_path):
        with pytest.raises(StudyError, match=r"another run is writing there. Wait until it has ended, or give another"):
            alone_in(tmp_path).__enter__()
        (tmp_path / "other").mkdir()
        with alone_in(tmp_path / "other"):
            pass
    with alone_in(tmp_path):  # and free again
        pass


def test_the_lock_of_a_process_ends_with_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"held"
        with pytest.raises(StudyError, match="another run"), alone_in(tmp_path):
            pass
        holder.kill()
    with alone_in(tmp_path):
        pass
