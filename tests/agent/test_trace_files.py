"""Who may read what a job writes into the agent's folder: the agent, whatever the job's umask, and nobody else."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

from ofu_exporter.agent import trace_files
from ofu_exporter.agent.trace_files import KEPT_SECONDS, MOST_KEPT, is_held, sweep_traces
from ofu_exporter.errors import ConfigError
from tests.helpers.every import every

AGENT, JOB, STRANGER = 4001, 4002, 4003
PREPARE = (
    "import os, sys; from pathlib import Path; from ofu_exporter.agent import trace_files as t; "
    "os.umask(0o77); "
    "t.prepare(Path(sys.argv[1]), needs_own=True); print(t.let_agent_read(Path(sys.argv[1])))"
)
WRITE = "import os, sys; os.umask(0o77); open(sys.argv[1], 'w').write('{}')"
READ = "import sys; print(open(sys.argv[1]).read())"

pytestmark = pytest.mark.skipif(os.getuid() != 0, reason="needs root, to be three users")


def test_of_too_many_traces_the_newest_stay_and_what_is_no_trace_is_left(tmp_path: Path) -> None:
    others = {tmp_path / "notes.json"}
    traces = [tmp_path / f"{number:032x}.json" for number in range(MOST_KEPT + 3)]
    for at, path in enumerate([*others, *traces]):
        path.write_text("{}")
        os.utime(path, (at, at))
    sweep_traces(tmp_path, 1000.0)
    assert {*tmp_path.iterdir()} == {*traces[3:], *others}
    sweep_traces(tmp_path, KEPT_SECONDS + MOST_KEPT + 3)
    assert {*tmp_path.iterdir()} == {traces[-1], *others}


def test_a_socket_is_held_until_its_process_closes_it_whatever_it_is_connected_to(
    tmp_path: Path,
) -> None:
    free, taken = (socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) for _ in "ab")
    for each, name in ((free, "free"), (taken, "taken")):
        each.bind(str(tmp_path / name))
    taken.connect(str(tmp_path / "free"))
    paths = [str(tmp_path / name) for name in ("free", "taken", "none")]
    assert [is_held(path) for path in paths] == [True, True, False]
    for each in (free, taken):
        each.close()
    assert [is_held(path) for path in paths] == [False, False, False]


def as_user(uid: int, code: str, path: Path) -> subprocess.CompletedProcess[str]:
    """What Python does as a user without a capability, who may be root."""
    rights = ("setpriv", "--reuid", str(uid), "--regid", str(uid), "--clear-groups")
    command = (*rights, "--bounding-set=-all", "--inh-caps=-all", sys.executable, "-c", code)
    told = subprocess.run([*command, str(path)], capture_output=True, text=True, check=False)
    if told.returncode in (126, 127) or "No module named 'ofu_exporter'" in told.stderr:
        pytest.skip(f"{sys.executable} starts for nobody but root")  # one in a home of root's
    return told


@every([AGENT, 0])
def test_a_file_under_umask_077_is_for_the_agent_alone(uid: int) -> None:
    """An agent of the chart is user 0 without a capability, so that modes hold for it as well."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o777)
        folder = Path(made) / "run" / "agent" / "traces"  # as /run without systemd: all are made
        file = folder / f"{'a' * 32}_7.json"
        said = as_user(uid, PREPARE, folder)
        if "takes no ACL" in said.stdout:
            pytest.skip(said.stdout)
        assert (said.stdout, said.stderr) == ("\n", "")
        assert as_user(JOB, WRITE, file).returncode == 0
        assert as_user(uid, READ, file).stdout == "{}\n"
        assert "Permission denied" in as_user(STRANGER, READ, file).stderr
        assert (
            "Permission denied"
            in as_user(STRANGER, "import os, sys; os.listdir(sys.argv[1])", folder).stderr
        )
        assert as_user(uid, "import os, sys; os.unlink(sys.argv[1])", file).returncode == 0


@every(
    [
        (AGENT, 0o700, True, True),
        (STRANGER, 0o1777, True, False),
        (STRANGER, 0o1777, False, False),
        (0, 0o1777, True, False),
        (0, 0o1777, False, True),
        (0, 0o777, False, False),
    ]
)
def test_a_folder_that_others_could_manage_is_refused(
    owner: int, mode: int, needs_own: bool, is_taken: bool
) -> None:
    """The agent is user 4001; root's folder is good enough where files of each belong to it alone."""
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o755)
        folder = Path(made) / "traces"
        folder.mkdir()
        os.chown(folder, owner, owner)
        folder.chmod(mode)
        said = as_user(AGENT, PREPARE.replace("needs_own=True", f"needs_own={needs_own}"), folder)
        wrong = f"ConfigError: {folder} belongs to user {owner}: let it be the agent's, user 4001"
        assert (wrong not in said.stderr) == is_taken, said.stderr
        if is_taken:
            assert "Error" not in said.stderr


def test_everybody_may_add_files_and_nobody_list_or_remove_those_of_others(tmp_path: Path) -> None:
    trace_files.prepare(tmp_path / "traces", needs_own=True)
    assert stat.S_IMODE((tmp_path / "traces").stat().st_mode) == 0o1733


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file is no folder"):
        trace_files.prepare(tmp_path / "file", needs_own=False)


NO_ACL = "import os\ndef refuse(*_): raise OSError(95, 'Operation not supported')\nos.setxattr = refuse\n"


@every([AGENT, 0])
def test_where_a_folder_takes_no_acl_it_is_said(uid: int) -> None:
    with tempfile.TemporaryDirectory() as made:
        os.chmod(made, 0o777)
        said = as_user(uid, NO_ACL + PREPARE, Path(made) / "traces").stdout
        assert "takes no ACL (Operation not supported)" in said
        assert "umask 077" in said


def read_by(code: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What the agent is told where this is the program that reads."""
    made = folder / "ofu_exporter" / "traces"
    made.mkdir(parents=True)
    for each in (made, made.parent):
        (each / "__init__.py").touch()
    (made / "reader.py").write_text(code)
    monkeypatch.syspath_prepend(str(folder))
    return trace_files.read(os.getuid(), [folder / "none"])


def test_the_process_that_reads_has_the_modules_of_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where these are on a path that only the agent has, as with PYTHONPATH."""
    assert read_by("""print('{"unread": {}}')""", tmp_path, monkeypatch) == {"unread": {}}


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("raise MemoryError", "it takes more memory than a node gives"),
        ("raise OSError('no\\nluck')", "luck"),
        ("raise SystemExit(3)", "it ended with 3"),
        ("print(' ' * (1 << 20))", "its reader gave no answer"),
        ("print([])", "its reader gave no answer"),
        ("import time; time.sleep(9)", "it took more than 0.1 s"),
    ],
)
def test_a_process_that_gives_no_answer_is_said(
    code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if "sleep" in code:
        monkeypatch.setattr(trace_files, "READ_SECONDS", 0.1)
    with pytest.raises(ValueError, match=f"^{why}$"):
        read_by(code, tmp_path, monkeypatch)


def test_a_file_beside_the_agent_is_no_module_of_python(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An agent that was started as `python -m` in a folder that others write to has that folder on its path."""
    (tmp_path / "resource.py").write_text("raise SystemExit('run by a stranger')")
    (tmp_path / "json.py").write_text("raise SystemExit('run by a stranger')")
    monkeypatch.syspath_prepend(str(tmp_path))
    answer = trace_files.read(os.getuid(), [tmp_path / "none"])
    assert answer["unread"] == {"none": "No such file or directory"}
