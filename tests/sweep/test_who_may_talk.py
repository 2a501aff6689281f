"""Who may talk to the processes of a sweep: nobody without the keys of the run, and nobody from elsewhere.

The sweep is a program of its own, and the attacks know nothing of how it is made: they find its ports as ``ss`` shows
them. So this file can be run on any earlier limitlab, to see which of them get through there.
"""

import contextlib
import json
import os
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

import psutil
import pytest

import limitlab as ll
from cases import committee

RATE = "algorithm.learning_rate"
TESTS = Path(__file__).parents[1]
NOBODY = 65534

SWEEP = """
import sys, time
from pathlib import Path
sys.path += {paths!r}
import limitlab as ll
from cases import committee

def halved(problem):
    Path({started!r}).touch()
    end = time.monotonic() + 300
    while not Path({go!r}).exists() and time.monotonic() < end:
        time.sleep(0.05)
    return problem.algorithm.learning_rate / 2

before = list(sys.path)
found = ll.sweep(halved, committee("linear", "linear", p=1, k=1), {{{rate!r}: [0.25]}}, workers=1)
assert sys.path == before
print("the sweep found", found["halved"].item())
"""

# dask works in a folder of this name wherever temporary files are, and programs look there for modules. Who makes it
# first owns it, and can put a folder of his own in the place of the one that a scheduler has just made in it.
SQUAT = """
import os, sys, time
if os.geteuid() == 0:
    os.setgroups([]); os.setgid({nobody}); os.setuid({nobody})
os.chdir({folder!r})
os.mkdir("dask-scratch-space"); os.chmod("dask-scratch-space", 0o777); os.chdir("dask-scratch-space")
print("ready", flush=True)
end = time.monotonic() + 200
while time.monotonic() < end:
    for name in os.listdir():
        if os.path.isdir(name) and not name.startswith("mine"):
            os.rename(name, "mine-" + name)
            os.mkdir(name)
            for module in {modules!r}:
                with open(name + "/" + module + ".py", "w") as file:
                    file.write({evil!r}.format(module))
            print("swapped", flush=True)
    time.sleep(0.002)
"""
EVIL = "import os; open({folder!r} + '/run-{{}}', 'w').write(str(os.getuid())); raise ImportError"
OPTIONAL = ["lz4", "snappy", "zstandard", "crick", "rmm", "pynvml", "setproctitle", "bottleneck", "cftime", "numexpr"]


class Attacked(NamedTuple):
    """A sweep that waits in the middle of its only point, and an open scheduler, where every attack gets through."""

    sweep: subprocess.Popen
    open_port: int
    temporary: Path


@pytest.fixture(scope="module")
def attacked():
    # Not in a folder of pytest, which other users cannot enter anyway: that would prove nothing.
    with tempfile.TemporaryDirectory() as name, contextlib.ExitStack() as stack:
        folder = Path(name)
        os.chmod(folder, 0o1777)  # as /tmp
        code = SQUAT.format(nobody=NOBODY, folder=name, modules=OPTIONAL, evil=EVIL.format(folder=name))
        words = [sys.executable, "-S", "-c", code]
        squatter = stack.enter_context(_program(words, folder, stdout=subprocess.PIPE, text=True))
        assert squatter.stdout.readline() == "ready\n"
        words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
        words += ["--no-dashboard", "--dashboard-address", "127.0.0.1:0", "--scheduler-file", str(folder / "open")]
        elsewhere = stack.enter_context(tempfile.TemporaryDirectory())
        unlocked = stack.enter_context(_program(words, elsewhere, stderr=subprocess.DEVNULL))
        paths = [str(TESTS), *(path for path in sys.path if path)]
        started, go = folder / "started", folder / "go"
        code = SWEEP.format(paths=paths, started=str(started), go=str(go), rate=RATE)
        sweep = stack.enter_context(_program([sys.executable, "-c", code], folder, stdout=subprocess.PIPE, text=True))
        _wait_for(started, sweep)
        _wait_for(folder / "open", unlocked)
        yield Attacked(sweep, int(json.loads((folder / "open").read_text())["address"].rsplit(":", 1)[1]), folder)
        go.touch()
        said, _ = sweep.communicate(timeout=120)
        assert said.split("\n")[-2] == "the sweep found 0.125", said  # whoever has the key was not disturbed


@contextlib.contextmanager
def _program(words, temporary, **settings):
    with subprocess.Popen(words, cwd="/", env={**os.environ, "TMPDIR": str(temporary)}, **settings) as program:
        try:
            yield program
        finally:
            for process in psutil.Process(program.pid).children(recursive=True) if program.poll() is None else ():
                process.kill()
            program.kill()


def _wait_for(path, program):
    end = time.monotonic() + 120
    while not path.exists() or not (path.name == "started" or path.read_text().endswith("}")):
        assert time.monotonic() < end and program.poll() is None, f"no {path.name}"
        time.sleep(0.05)


def listening(sweep):
    """(process, address, port) of every open port of the sweep and its processes, as ss tells it, or the system."""
    family = [psutil.Process(sweep.pid), *psutil.Process(sweep.pid).children(recursive=True)]
    own = {process.pid for process in family}
    if shutil.which("ss"):
        said = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
        found = []
        for line in said.splitlines():
            address, port = line.split()[3].rsplit(":", 1)
            found += [(int(p), address.strip("[]"), int(port)) for p in re.findall(r"pid=(\d+)", line) if int(p) in own]
        return found
    ports = [(p.pid, c.laddr) for p in family for c in p.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    return [(process, address.ip, address.port) for process, address in ports]


def test_every_port_is_on_the_loopback(attacked):
    found = listening(attacked.sweep)
    assert len({process for process, *_ in found}) >= 3  # the scheduler, the nanny, the worker
    assert {address for _, address, _ in found} <= {"127.0.0.1", "::1"}, found


def test_a_client_without_the_key_gets_nothing(attacked):
    """Another user of the machine (only root can become one), or a program of one's own: code as the owner."""
    who = "nobody" if os.geteuid() == 0 else "self"
    ports = sorted({port for _, _, port in listening(attacked.sweep)})
    program = Path(__file__).with_name("cluster_attacks.py")
    words = [sys.executable, str(program), who, *map(str, [attacked.open_port, *ports])]
    done = subprocess.run(words, capture_output=True, text=True, timeout=90)
    assert done.returncode == 0, done.stderr
    heard = {int(port): answers for port, answers in json.loads(done.stdout).items()}
    control = heard.pop(attacked.open_port)
    assert control["a client"] == control["by hand"] == os.getuid()  # the attacks work where nothing is locked
    assert sorted(heard) == ports and len(ports) >= 3
    ran = {port: answers for port, answers in heard.items() if any(isinstance(a, int) for a in answers.values())}
    assert not ran, f"code was run as {os.getuid()}: {ran}"


def test_a_port_says_nothing_to_who_does_not_speak_its_language(attacked):
    """dask greets whoever comes, with its versions; a port that wants a key sends an alert of TLS at most."""
    said = {}
    for _, address, port in listening(attacked.sweep):
        with socket.create_connection((address, port), timeout=10) as plain:
            plain.settimeout(1)
            with contextlib.suppress(ConnectionError, TimeoutError):
                plain.sendall(b"\x01" + bytes(63))
                said[port] = plain.recv(4096)
    assert all(len(words) <= 7 or words.startswith(b"HTTP/1.1 400") for words in said.values()), said


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_cannot_read_the_key(attacked):
    files = [path for path in attacked.temporary.rglob("*.pem") if path.is_file()]
    assert any("PRIVATE KEY" in path.read_text() for path in files)
    code = """
import os, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
print(open(sys.argv[1]).read())  # what everybody may read
for name in sys.argv[2:]:
    try:
        open(name).read(); print("read", name)
    except PermissionError:
        print("refused")
"""
    everybody = attacked.temporary / "hello"
    everybody.write_text("hello")
    words = [sys.executable, "-S", "-c", code, str(everybody), *map(str, files)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["hello", *["refused"] * len(files)], done


def test_another_user_cannot_put_modules_where_a_sweep_looks_for_them(attacked):
    there = attacked.temporary / "dask-scratch-space"
    assert there.is_dir() and (os.geteuid() != 0 or there.stat().st_uid == NOBODY)
    assert {path.name: path.read_text() for path in attacked.temporary.glob("run-*")} == {}


def test_pages_show_nothing(attacked):
    answers = []
    for _, address, port in listening(attacked.sweep):
        with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=5) as one:
            one.settimeout(5)
            for path in (b"/", b"/status", b"/health", b"/info/main/workers.html", b"/json/counts.json"):
                one.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
                answers.append(one.recv(4096)[:15])
    assert {answer for answer in answers if answer.startswith(b"HTTP")} <= {b"HTTP/1.1 404 No", b"HTTP/1.1 400 Ba"}


def halved(problem):
    return problem.algorithm.learning_rate / 2


# --- workers alone -----------------------------------------------------------------------------------------------

SCRIPT = """
import numpy as np, sys
sys.path.insert(0, {tests!r})
import limitlab as ll
from cases import committee
import mine_of_this_folder
ds = ll.sweep(mine_of_this_folder.third, committee("linear", "linear", p=1, k=1), {{{rate!r}: [0.3, 0.6]}}, workers=1)
assert np.allclose(ds["third"], [0.1, 0.2]), ds
"""


def test_a_module_that_lies_in_the_folder_is_not_run_by_workers(tmp_path):
    """A click.py there was, as dask imports click; modules of one's own are found all the same."""
    for name in ("click", "tornado", "yaml", "tomlkit", "msgpack"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'run')!r}, 'a').write('{name}'); raise SystemExit(9)"
        )
    (tmp_path / "mine_of_this_folder.py").write_text("def third(problem): return problem.algorithm.learning_rate / 3")
    code = SCRIPT.format(tests=str(TESTS), rate=RATE)
    # The program itself looks there last, too: what is tested are its workers.
    code = "import sys; sys.path[:] = [*filter(None, sys.path), '']\n" + code
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert not (tmp_path / "run").exists(), (tmp_path / "run").read_text()
    assert done.returncode == 0, done.stderr


@pytest.mark.more
def test_the_last_lines_of_a_worker_that_dies_at_its_start_are_shown(tmp_path, monkeypatch):
    program = tmp_path / "python"
    trace = "".join(f"echo '  File {number}, in keeper' >&2\n" for number in range(30))
    trace = f"echo 'Traceback (most recent call last):' >&2\n{trace}echo 'RuntimeError: Nanny failed to start.' >&2\n"
    program.write_text(f"#!/bin/sh\necho 'no such library: \x1b[31mlibfoo' >&2\n{trace}exit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    began = time.monotonic()
    with pytest.raises(ll.errors.EngineError, match="end as soon as they start") as error:
        ll.sweep(halved, committee("linear", "linear", p=1, k=1), {RATE: [0.1]}, store=tmp_path / "s", workers=1)
    assert "no such library: \\x1b[31mlibfoo" in str(error.value) and "Nanny failed" in str(error.value)
    assert time.monotonic() - began < 60
