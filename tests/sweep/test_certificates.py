"""Certificates: whom they let in, and a sweep on a cluster that wants them."""

import contextlib
import datetime
import re
import shutil
import ssl
import subprocess
import sys
import time

import distributed
import pytest
from distributed.security import Security
from typer.testing import CliRunner

import limitlab as ll
from cases import committee
from limitlab.cli import app
from limitlab.sweep.engine.keys import FILES, keys_in


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


@pytest.mark.skipif(shutil.which("openssl") is None, reason="the program openssl is not here")
def test_openssl_makes_the_keys_where_the_package_is_missing(tmp_path, monkeypatch):
    def missing():
        raise ImportError("no cryptography")

    monkeypatch.setattr(Security, "temporary", missing)
    made = []
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        made.append(keys_in(str(tmp_path / name)))
        files = [tmp_path / name / file for file in FILES]
        assert [file.stat().st_mode & 0o077 for file in (*files, tmp_path / name)] == [0, 0, 0]
    listen = made[0].get_listen_args("scheduler")["ssl_context"]
    assert [shaken(listen, one.get_connection_args("client")["ssl_context"]) for one in made] == [True, False]
    monkeypatch.setenv("PATH", str(tmp_path))
    (tmp_path / "none").mkdir()
    with pytest.raises(ll.errors.EngineError, match="or the program openssl"):
        keys_in(str(tmp_path / "none"))


# --- a cluster with certificates -----------------------------------------------------------------------------------


def test_files_that_are_no_certificates_are_named(tmp_path):
    """Nobody is asked: the port is closed, and would give another message."""
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        keys_in(str(tmp_path / name))
    (tmp_path / "junk.pem").write_text("junk")
    ll.save_spec(committee("linear", "linear", p=1, k=1), tmp_path / "a.toml")
    cert, key = (str(tmp_path / "one" / name) for name in FILES)
    other, junk = str(tmp_path / "other" / FILES[1]), str(tmp_path / "junk.pem")
    cases = {
        (junk, cert, key): "junk.pem is no certificate",
        (cert, junk, key): "junk.pem is no certificate (PEM), or",
        (cert, cert, junk): "junk.pem is no key",
        (cert, cert, other): "is not the key of --tls-cert",
    }
    words = ["sweep", str(tmp_path / "a.toml"), "--over", "d=10", "--times", "0", "--out", str(tmp_path / "runs")]
    words += ["--scheduler", "tls://127.0.0.1:1"]
    for files, told in cases.items():
        options = [
            word for pair in zip(("--tls-ca-file", "--tls-cert", "--tls-key"), files, strict=True) for word in pair
        ]
        done = CliRunner().invoke(app, [*words, *options])
        assert done.exit_code == 2 and told in done.output, done.output
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 2 and "cannot be reached without certificates" in done.output, done.output


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


@pytest.mark.more
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


def test_a_client_that_failed_is_nobodys_default(tmp_path):
    """It would be asked for a lock by whoever writes a file next."""
    import distributed

    ll.save_spec(committee("linear", "linear", p=1, k=1), tmp_path / "a.toml")
    words = [
        "sweep",
        str(tmp_path / "a.toml"),
        "--over",
        "d=10,20",
        "--times",
        "0,0.1",
        "--out",
        str(tmp_path / "runs"),
    ]
    assert CliRunner().invoke(app, [*words, "--scheduler", "tls://127.0.0.1:1"]).exit_code == 2
    with pytest.raises(ValueError, match="No client"):
        distributed.default_client()
