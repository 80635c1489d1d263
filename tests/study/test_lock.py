"""Two runs never write into one folder at once; a run that died leaves nothing locked."""

import subprocess
import sys
from pathlib import Path

import pytest

from jigsawmil.errors import StudyError
from jigsawmil.study.run_folder import RunFolder

HOLD = """
import sys
from pathlib import Path
from jigsawmil.study.run_folder import RunFolder
with RunFolder(Path(sys.argv[1])).alone():
    print("held", flush=True)
    sys.stdin.read()
"""


def test_a_folder_is_for_one_at_a_time(tmp_path: Path) -> None:
    with RunFolder(tmp_path).alone():
        with pytest.raises(StudyError, match=r"another run is writing there. Wait until it has ended, or give another"):
            RunFolder(tmp_path).alone().__enter__()
        (tmp_path / "other").mkdir()
        with RunFolder(tmp_path / "other").alone():
            pass
    with RunFolder(tmp_path).alone():  # and free again
        pass


def test_the_lock_of_a_process_ends_with_it(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline().strip() == b"held"
        with pytest.raises(StudyError, match="another run"), RunFolder(tmp_path).alone():
            pass
        holder.kill()
    with RunFolder(tmp_path).alone():
        pass
