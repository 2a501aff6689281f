"""Somebody without the keys of a sweep, who tries to have its processes run code.

``python cluster_attacks.py nobody|self PORT...`` becomes another user if told so, asks every port of this machine in
every way to say as whom it runs, and prints what it heard: ``{port: {way: answer}}``, a number where code was run.
"""

import asyncio
import json
import os
import pickle
import ssl
import sys
import tempfile

import distributed
from distributed.core import rpc
from distributed.security import Security

NOBODY = 65534
PATIENCE = 4.0
CLOSED = 1  # a port where nobody is
ORDER = pickle.dumps(os.getuid)  # code that the other side would run


def strangers() -> dict[str, ssl.SSLContext]:
    """Ways to speak TLS without the key: with no certificate, and with one made just now; neither asks for any."""
    bare, own = (ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT) for _ in range(2))
    for context in (bare, own):
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    made = Security.temporary()
    with tempfile.NamedTemporaryFile("w") as cert, tempfile.NamedTemporaryFile("w") as key:
        for file, text in ((cert, made.tls_client_cert), (key, made.tls_client_key)):
            file.write(str(text))
            file.flush()
        own.load_cert_chain(cert.name, key.name)
    return {"TLS without a certificate": bare, "TLS with one of one's own": own}


async def order(address: str, **settings) -> object:
    """Order a server of dask by hand, as scheduler (``run_function``) and as worker or keeper of workers (``run``)."""
    async with rpc(address, timeout=PATIENCE / 2, **settings) as server:
        for op in ("run_function", "run"):
            answer = await getattr(server, op)(function=ORDER)
            if isinstance(answer, dict) and answer.get("status") == "OK":
                return answer["result"]
    return "nothing"


async def client(address: str) -> object:
    """Ask as the client of a scheduler does."""
    async with distributed.Client(address, asynchronous=True, timeout=PATIENCE / 2) as ours:
        return await ours.run_on_scheduler(os.getuid)


async def heard(attempt, seconds: float) -> object:
    try:
        return await asyncio.wait_for(attempt, seconds)
    except Exception as error:
        return type(error).__name__


async def attack(port: int, contexts: dict[str, ssl.SSLContext], seconds: float) -> dict[str, object]:
    host = f"127.0.0.1:{port}"
    ways = {"a client": client(f"tcp://{host}"), "by hand": order(f"tcp://{host}")}
    for name, context in contexts.items():
        ways[name] = order(f"tls://{host}", connection_args={"ssl_context": context, "require_encryption": True})
    answers = await asyncio.gather(*(heard(way, seconds) for way in ways.values()))
    return dict(zip(ways, answers, strict=True))


async def main(who: str, ports: list[int]) -> None:
    contexts = strangers()
    await attack(CLOSED, contexts, 0.5)  # whatever has to be imported is, while it can be read
    if who == "nobody":
        os.setgroups([])
        os.setgid(NOBODY)
        os.setuid(NOBODY)
    answers = await asyncio.gather(*(attack(port, contexts, PATIENCE) for port in ports))
    print(json.dumps(dict(zip(ports, answers, strict=True))))


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], [int(port) for port in sys.argv[2:]]))
