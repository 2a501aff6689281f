"""Who may talk to the processes of a sweep: nobody without the keys of the run, and nobody from elsewhere."""

import contextlib
import datetime
import os
import re
import shutil
import socket
import ssl
import subprocess
import sys
import time
from pathlib import Path

import distributed
import psutil
import pytest
from distributed.security import Security
from typer.testing import CliRunner

import limitlab as ll
from cases import committee
from limitlab.cli import app
from limitlab.sweep.engine import engines
from limitlab.sweep.engine.keys import FILES, keys_in

RATE = "algorithm.learning_rate"


def halved(problem):
    return problem.algorithm.learning_rate / 2


@pytest.fixture(scope="module")
def running():
    """A local cluster with one worker, and the folder of its keys."""
    with engines.cluster(1, None) as where:
        where.client.wait_for_workers(1, timeout=120)
        yield where.client, where.workers


def family():
    """This process and the programs that it started, worker and all."""
    return [psutil.Process(), *psutil.Process().children(recursive=True)]


def listening():
    """(process, address, port) of every open port of the family, as ss tells it, or the system itself."""
    own = {process.pid for process in family()}
    if shutil.which("ss"):
        said = subprocess.run(["ss", "-Hltnp"], capture_output=True, text=True, check=True).stdout
        found = []
        for line in said.splitlines():
            address, port = line.split()[3].rsplit(":", 1)
            found += [(int(p), address.strip("[]"), int(port)) for p in re.findall(r"pid=(\d+)", line) if int(p) in own]
        return found
    ports = [(p.pid, c.laddr) for p in family() for c in p.net_connections("tcp") if c.status == psutil.CONN_LISTEN]
    return [(process, address.ip, address.port) for process, address in ports]


def test_every_port_is_on_the_loopback(running):
    found = listening()
    assert len({process for process, *_ in found}) >= 3  # the scheduler in this process, the nanny, the worker
    assert {address for _, address, _ in found} <= {"127.0.0.1", "::1"}, found


def addresses(client):
    workers = client.scheduler_info()["workers"]
    return [client.scheduler.address, *workers, *(about["nanny"] for about in workers.values())]


def test_everything_is_encrypted_and_wants_the_key(running):
    client, _ = running
    assert len(addresses(client)) == 3
    for address in addresses(client):
        assert address.startswith("tls://127.0.0.1:")
        host, port = address.removeprefix("tls://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as plain:
            plain.settimeout(10)
            plain.sendall(b"\x01" + bytes(63))
            with contextlib.suppress(ConnectionError):
                assert len(plain.recv(4096)) <= 7  # an alert of TLS at most, nothing of dask
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        assert _answer(context, host, int(port)) == b""


def _answer(context, host, port):
    """What somebody hears who speaks TLS and has no key."""
    try:
        with socket.create_connection((host, port), timeout=10) as plain, context.wrap_socket(plain) as without:
            without.settimeout(10)
            return without.recv(4096)
    except (ssl.SSLError, ConnectionError):
        return b""


@pytest.mark.parametrize("key", ["none", "another"])
def test_a_client_without_the_key_gets_nothing(running, tmp_path, key):
    client, _ = running
    address = client.scheduler.address
    security = keys_in(str(tmp_path)) if key == "another" else None
    address = address if security else address.replace("tls://", "tcp://")
    with pytest.raises((OSError, TimeoutError)), distributed.Client(address, timeout=3, security=security) as other:
        other.submit(os.getpid).result(timeout=3)
    assert client.submit(lambda: 7).result(timeout=60) == 7  # who has it is not disturbed


def shaken(server, client):
    """Whether two sides come to terms, in memory."""
    one, other = (ssl.MemoryBIO(), ssl.MemoryBIO()), (ssl.MemoryBIO(), ssl.MemoryBIO())
    ends = [server.wrap_bio(one[0], one[1], server_side=True), client.wrap_bio(other[0], other[1])]
    try:
        for _ in range(6):
            for end, (_, out), (into, _) in ((ends[1], other, one), (ends[0], one, other)):
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
                into.write(out.read())
        with contextlib.suppress(ssl.SSLWantReadError):
            ends[1].read(1)  # TLS 1.3 tells a client at its first read that its certificate was refused
        return True
    except ssl.SSLError:
        return False


def certificate(folder, days, name):
    """A certificate like those of a run, that is over if ``days`` are negative."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, now = ec.generate_private_key(ec.SECP256R1()), datetime.datetime.now(datetime.UTC)
    called = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "limitlab")])
    made = x509.CertificateBuilder(called, called, key.public_key(), x509.random_serial_number())
    made = made.not_valid_before(now - datetime.timedelta(days=9)).not_valid_after(now + datetime.timedelta(days=days))
    paths = [folder / f"{name}.cert", folder / f"{name}.key"]
    paths[0].write_bytes(made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))
    plain = serialization.NoEncryption()
    form = serialization.PrivateFormat.PKCS8
    paths[1].write_bytes(key.private_bytes(serialization.Encoding.PEM, form, plain))
    cert, own = map(str, paths)
    roles = {
        f"tls_{role}_{what}": at for role in ("client", "scheduler") for what, at in (("cert", cert), ("key", own))
    }
    return Security(require_encryption=True, tls_ca_file=cert, **roles)


def test_certificates_that_are_over_or_of_others_are_refused(tmp_path):
    good, over, other = (certificate(tmp_path, days, name) for days, name in ((9, "a"), (-1, "b"), (9, "c")))

    def meet(server, client):
        listen = server.get_listen_args("scheduler")["ssl_context"]
        return shaken(listen, client.get_connection_args("client")["ssl_context"])

    assert meet(good, good)
    assert not meet(over, over)
    assert not meet(good, other) and not meet(other, good)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_cannot_read_the_key_and_gets_nothing(running):
    client, workers = running
    code = """
import encodings.idna, os, socket, sys
os.setgroups([]); os.setgid(65534); os.setuid(65534)
for name in sys.argv[2:]:
    try:
        open(name).read(); print("read", name)
    except PermissionError:
        print("refused")
host, port = sys.argv[1].rsplit(":", 1)
with socket.create_connection((host, int(port)), timeout=10) as one:
    one.settimeout(10)
    one.sendall(bytes(64))
    try:
        print(len(one.recv(4096)) <= 7)
    except OSError:
        print(True)
"""
    files = [os.path.join(workers._scratch, name) for name in FILES]
    words = [sys.executable, "-S", "-c", code, client.scheduler.address.removeprefix("tls://"), *files]
    done = subprocess.run(words, capture_output=True, text=True, timeout=60)
    assert done.stdout.split() == ["refused", "refused", "True"], done


def test_pages_show_nothing(running):
    answers = []
    for _, address, port in listening():
        with contextlib.suppress(OSError), socket.create_connection((address, port), timeout=5) as one:
            one.settimeout(5)
            for path in (b"/", b"/status", b"/health", b"/info/main/workers.html", b"/json/counts.json"):
                one.sendall(b"GET " + path + b" HTTP/1.1\r\nHost: x\r\n\r\n")
                answers.append(one.recv(4096)[:15])
    assert {answer for answer in answers if answer.startswith(b"HTTP")} <= {b"HTTP/1.1 404 No", b"HTTP/1.1 400 Ba"}


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
    code = SCRIPT.format(tests=str(Path(__file__).parents[1]), rate=RATE)
    # The program itself looks there last, too: what is tested are its workers.
    code = "import sys; sys.path[:] = [*filter(None, sys.path), '']\n" + code
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "run").exists(), (tmp_path / "run").read_text()


def test_the_last_lines_of_a_worker_that_dies_at_its_start_are_shown(tmp_path, monkeypatch):
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 'no such library: \x1b[31mlibfoo' >&2\nexit 3\n")
    program.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(program))
    began = time.monotonic()
    with pytest.raises(ll.errors.EngineError, match="end as soon as they start") as error:
        ll.sweep(halved, committee("linear", "linear", p=1, k=1), {RATE: [0.1]}, store=tmp_path / "s", workers=1)
    assert "no such library: \\x1b[31mlibfoo" in str(error.value)
    assert time.monotonic() - began < 60


# --- a cluster with certificates -----------------------------------------------------------------------------------


@contextlib.contextmanager
def secure_cluster(folder):
    """A dask scheduler and a worker that want certificates, as on a real cluster."""
    (folder / "keys").mkdir()
    keys_in(str(folder / "keys"))
    cert, key = (str(folder / "keys" / name) for name in FILES)
    tls = ["--tls-ca-file", cert, "--tls-cert", cert, "--tls-key", key]
    log = open(folder / "log", "w+")
    words = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0"]
    programs = [subprocess.Popen([*words, "--protocol", "tls", "--no-dashboard", *tls], stdout=log, stderr=log)]
    try:
        end = time.monotonic() + 100
        while not (found := re.search(r"Scheduler at:\s+(tls://\S+)", (folder / "log").read_text())):
            assert time.monotonic() < end and programs[0].poll() is None, (folder / "log").read_text()
            time.sleep(0.1)
        words = [sys.executable, "-m", "distributed.cli.dask_worker", found[1], "--nthreads", "1", "--no-nanny"]
        words += ["--no-dashboard", "--local-directory", str(folder), *tls]
        programs.append(subprocess.Popen(words, stdout=log, stderr=log))
        yield found[1], tls
    finally:
        for program in programs:
            program.kill()
            program.wait()
        log.close()


def test_a_sweep_runs_on_a_cluster_with_certificates(tmp_path):
    ll.save_spec(committee("linear", "linear", p=1, k=1), tmp_path / "a.toml")
    words = ["sweep", str(tmp_path / "a.toml"), "--over", "d=10,20", "--times", "0,0.1", "--replicas", "2"]
    words += ["--out", str(tmp_path / "runs")]
    with secure_cluster(tmp_path) as (address, tls):
        missing = CliRunner().invoke(app, [*words, "--scheduler", address, *tls[:2]])
        assert missing.exit_code == 2 and "needs all of --tls-ca-file, --tls-cert, --tls-key" in missing.output
        done = CliRunner().invoke(app, [*words, "--scheduler", address, *tls])
        assert done.exit_code == 0, done.output
        refused = CliRunner().invoke(app, [*words, "--retry-failed", "--scheduler", address, "--over", "seed=5"])
        assert refused.exit_code == 2, refused.output
        assert "--tls-ca-file" in refused.output
        security = Security(require_encryption=True, tls_ca_file=tls[1], tls_client_cert=tls[3], tls_client_key=tls[5])
        with distributed.Client(address, security=security) as client:
            ds = ll.sweep(
                ll.simulate, committee("linear", "linear", p=1, k=1), {"d": [10]}, times=[0.1], scheduler=client
            )
    assert (ds["status"] == "ok").all()
