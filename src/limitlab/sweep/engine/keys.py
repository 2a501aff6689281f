"""Keys for one run: who has them may talk to its scheduler and its workers, nobody else.

dask moves functions between processes by pickle, so that whoever may talk to a scheduler can run code as its owner.
"""

import os
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

from limitlab.errors import EngineError

if TYPE_CHECKING:
    from distributed.security import Security

__all__ = ["FILES", "keys_in"]

FILES = ("cert.pem", "key.pem")
ROLES = ("client", "scheduler", "worker")
OPENSSL = "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -sha256 -days 365 -subj /CN=limitlab"


def keys_in(folder: str) -> "Security":
    """A certificate and its key, made now and kept in a folder that only its owner may enter."""
    from distributed.security import Security

    cert, key = (Path(folder) / name for name in FILES)
    os.chmod(folder, 0o700)
    try:
        made = Security.temporary()
        for path, text in ((cert, str(made.tls_ca_file)), (key, str(made.tls_client_key))):
            with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
                file.write(text)
    except ImportError as error:  # without the package cryptography
        _by_openssl(cert, key, error)
    ours = {f"tls_{role}_{what}": str(path) for role in ROLES for what, path in (("cert", cert), ("key", key))}
    return Security(require_encryption=True, tls_ca_file=str(cert), **ours)


def _by_openssl(cert: Path, key: Path, error: ImportError) -> None:
    program = shutil.which("openssl")
    words = [*OPENSSL.split(), "-keyout", str(key), "-out", str(cert)]
    done = None if program is None else subprocess.run([program, *words], capture_output=True, umask=0o077)
    if done is None or done.returncode != 0:
        raise EngineError(
            "Sweeps in several processes need keys, so that nobody else can talk to them, and nothing here makes any. "
            'Install what does: pip install "limitlab[tls]", or the program openssl.'
        ) from error
