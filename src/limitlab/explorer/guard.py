"""What stands before every request: who may ask, how much they may send, and what a browser may do with the answer.

A page of another site must not drive the explorer: the name of the host and the origin are checked, also of websockets.
Another address than that of this machine needs a token, which is compared in constant time.
"""

import hmac
import ipaddress
import socket
from http.cookies import CookieError, SimpleCookie
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

__all__ = ["COOKIE", "Guard", "address_of", "hosts_of"]

COOKIE = "limitlab-explorer"
LARGEST = 32 << 20  # bytes of a body: a table of the visitor's
LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


def hosts_of(host: str) -> tuple[str, ...]:
    """The names by which a server on this address may be called; "*" of all numbers."""
    if host in LOOPBACK or host == "::1":
        return LOOPBACK
    if host in ("0.0.0.0", "::"):
        return ("*", *LOOPBACK, socket.gethostname(), socket.getfqdn())
    return (f"[{host}]" if ":" in host else host,)


def address_of(host: str, port: int, token: str = "") -> str:
    """The address that a visitor opens: all numbers of this machine together are no address, its name is."""
    shown = socket.gethostname() if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    return f"http://{shown}:{port}/" + (f"?token={token}" if token else "")


class Guard:
    """An ASGI application around another one.

    Parameters
    ----------
    app
        What is guarded.
    hosts
        Names of the machine that are accepted (`hosts_of`), with this ``port``.
    token
        What a visitor must bring; "" for nothing.
    """

    def __init__(self, app: Any, hosts: tuple[str, ...], port: int, token: str = ""):
        self.app, self.hosts, self.port, self.token = app, tuple(h.lower() for h in hosts), port, token

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] not in ("http", "websocket"):
            await self.app(scope, receive, send)
            return
        headers = {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}
        refused = self._refused(scope, headers)
        if refused:
            await _refuse(scope, receive, send, *refused)
        elif scope["type"] == "http" and (target := self._token_in_address(scope)):
            await _answer(send, 303, b"", [(b"location", target.encode()), (b"set-cookie", self._cookie())])
        elif self.token and not self._knows(headers):
            await _refuse(scope, receive, send, 403, "Open the address with its token, as the terminal shows it.")
        elif scope["type"] == "websocket":
            await self.app(scope, receive, send)
        else:
            body = _Body(receive)
            try:
                await self.app(scope, body.receive, self._with_policy(send, headers["host"]))
            except RuntimeError as error:  # "No response returned.", of a file for somebody who has left
                if not (body.left and "No response" in str(error)):
                    raise

    # --- who asks -------------------------------------------------------------------------------------------------

    def _refused(self, scope: Any, headers: dict[str, str]) -> tuple[int, str] | None:
        host = headers.get("host", "").lower()
        if not self._is_ours(host):
            return 400, "This is not the name of this server."
        origin = headers.get("origin")
        changing = scope["type"] == "websocket" or scope["method"] not in ("GET", "HEAD")
        if origin is None and changing:
            return 403, "A request that changes something must say where it comes from."
        if origin is not None and origin.lower() != f"http://{host}":
            return 403, "A page of another site may not ask."
        length = headers.get("content-length", "0")
        if not length.isdecimal() or int(length) > LARGEST:
            return 413, f"At most {LARGEST >> 20} MB."
        return None

    def _is_ours(self, host: str) -> bool:
        name, _, port = host.rpartition(":") if not host.endswith("]") and ":" in host else (host, "", "80")
        if port != str(self.port):
            return False
        if name in self.hosts:
            return True
        if "*" not in self.hosts:
            return False
        try:
            ipaddress.ip_address(name.strip("[]"))
        except ValueError:
            return False
        return True

    # --- the token ------------------------------------------------------------------------------------------------

    def _is_token(self, text: str) -> bool:
        return hmac.compare_digest(text.encode(), self.token.encode())

    def _knows(self, headers: dict[str, str]) -> bool:
        try:
            morsel = SimpleCookie(headers.get("cookie", "")).get(COOKIE)
        except CookieError:
            return False
        return morsel is not None and self._is_token(morsel.value)

    def _token_in_address(self, scope: Any) -> str:
        """The address without the token, if there was the right one in it."""
        if not self.token:
            return ""
        try:
            said = parse_qsl(scope["query_string"].decode("latin-1")[:8000], max_num_fields=200)
        except ValueError:
            return ""
        if not any(name == "token" and self._is_token(value) for name, value in said):
            return ""
        rest = urlencode([(name, value) for name, value in said if name != "token"])
        path = urlsplit(scope["path"]).path
        return (path if path.startswith("/") and not path.startswith("//") else "/") + (f"?{rest}" if rest else "")

    def _cookie(self) -> bytes:
        return f"{COOKIE}={self.token}; HttpOnly; SameSite=Lax; Path=/".encode()

    # --- what a browser may do ------------------------------------------------------------------------------------

    def _with_policy(self, send: Any, host: str) -> Any:
        policy = (
            "default-src 'self'; script-src 'self' 'unsafe-inline' 'unsafe-eval'; style-src 'self' 'unsafe-inline'; "
            f"img-src 'self' data: blob:; font-src 'self' data:; connect-src 'self' ws://{host}; worker-src 'self' "
            "blob:; object-src 'none'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"
        )
        more = [
            (b"content-security-policy", policy.encode("latin-1")),
            (b"x-content-type-options", b"nosniff"),
            (b"referrer-policy", b"no-referrer"),
            (b"cross-origin-opener-policy", b"same-origin"),
            (b"cross-origin-resource-policy", b"same-origin"),
        ]

        async def sent(message: Any) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message.get("headers", []), *more]}
            await send(message)

        return sent


class _Body:
    """What comes of a request: a body in pieces may not be longer either; and whether the visitor has left."""

    def __init__(self, receive: Any):
        self._receive, self._seen, self.left = receive, 0, False

    async def receive(self) -> Any:
        message = await self._receive()
        self._seen += len(message.get("body", b""))
        if self._seen > LARGEST:
            message = {"type": "http.disconnect"}
        self.left = message["type"] == "http.disconnect"
        return message


async def _refuse(scope: Any, receive: Any, send: Any, status: int, words: str) -> None:
    if scope["type"] == "websocket":
        await receive()
        await send({"type": "websocket.close", "code": 1008})
    else:
        await _answer(send, status, words.encode(), [(b"content-type", b"text/plain; charset=utf-8")])


async def _answer(send: Any, status: int, body: bytes, headers: list[tuple[bytes, bytes]]) -> None:
    more = [(b"content-length", str(len(body)).encode()), (b"cache-control", b"no-store")]
    await send({"type": "http.response.start", "status": status, "headers": [*headers, *more]})
    await send({"type": "http.response.body", "body": body})
