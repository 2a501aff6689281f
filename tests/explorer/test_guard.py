"""The guard without a server: who may ask, what they may send, and what a browser may do with the answer."""

import asyncio

import pytest

from limitlab.explorer.guard import COOKIE, LARGEST, Guard, address_of, hosts_of

OURS = "127.0.0.1:8765"


async def inner(scope, receive, send):
    """What is guarded: reads the body to its end, and says how it went."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        return
    size, more = 0, True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            await send({"type": "http.response.start", "status": 499, "headers": []})
            await send({"type": "http.response.body", "body": b""})
            return
        size += len(message.get("body", b""))
        more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": str(size).encode()})


def ask(guard, *, kind="http", method="GET", host=OURS, path="/learn", query="", body=(b"",), **headers):
    """The messages that come back."""
    sent, parts = [], list(body)
    scope = {"type": kind, "method": method, "path": path, "query_string": query.encode()}
    named = {"host": host, **{name.replace("_", "-"): value for name, value in headers.items()}}
    scope["headers"] = [(name.encode(), value.encode()) for name, value in named.items()]

    async def receive():
        if kind == "websocket":
            return {"type": "websocket.connect"}
        return {"type": "http.request", "body": parts.pop(0), "more_body": bool(parts)}

    async def send(message):
        sent.append(message)

    asyncio.run(guard(scope, receive, send))
    return sent


def status(*args, **options):
    return ask(*args, **options)[0].get("status")


@pytest.fixture
def guard():
    return Guard(inner, hosts_of("127.0.0.1"), 8765)


@pytest.mark.parametrize("host", [OURS, "localhost:8765", "[::1]:8765", "LOCALHOST:8765"])
def test_the_machine_itself_may_ask(guard, host):
    assert status(guard, host=host) == 200


@pytest.mark.parametrize("host", ["evil.example", "evil.example:8765", "127.0.0.1", "127.0.0.1:80", "", "[::1]"])
def test_another_name_of_the_host_is_refused(guard, host):
    """A page of another site whose name points to this machine."""
    assert status(guard, host=host) == 400


def test_a_page_of_another_site_is_refused(guard):
    assert status(guard, origin="http://evil.example") == 403
    assert status(guard, origin="null") == 403
    assert status(guard, origin="https://127.0.0.1:8765") == 403
    assert status(guard, origin=f"http://{OURS}") == 200


@pytest.mark.parametrize("origin", [None, "http://evil.example", "http://127.0.0.1:9999"])
def test_a_websocket_of_another_site_is_closed(guard, origin):
    headers = {} if origin is None else {"origin": origin}
    assert ask(guard, kind="websocket", **headers)[0]["type"] == "websocket.close"
    assert ask(guard, kind="websocket", origin=f"http://{OURS}")[0]["type"] == "websocket.accept"


def test_a_change_must_say_where_it_comes_from(guard):
    assert status(guard, method="POST") == 403
    assert status(guard, method="POST", origin=f"http://{OURS}") == 200


def test_a_body_that_is_too_large_is_refused_announced_or_not(guard):
    home = {"method": "POST", "origin": f"http://{OURS}"}
    assert status(guard, content_length=str(LARGEST + 1), **home) == 413
    assert status(guard, content_length="many", **home) == 413
    piece = bytes(LARGEST // 2 + 1)
    assert status(guard, body=(piece, piece), **home) == 499
    assert status(guard, body=(piece, b"x"), **home) == 200


@pytest.mark.parametrize("left", [True, False])
def test_a_file_for_somebody_who_has_left_is_no_error(left):
    """It was a traceback in the terminal whenever a page was left while its scripts were on their way."""

    async def file(scope, receive, send):
        await receive()
        raise RuntimeError("No response returned.")  # as the middleware of files says

    async def receive():
        return {"type": "http.disconnect"} if left else {"type": "http.request", "body": b""}

    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [(b"host", OURS.encode())]}
    asked = Guard(file, hosts_of("127.0.0.1"), 8765)(scope, receive, None)
    if left:
        asyncio.run(asked)
    else:
        with pytest.raises(RuntimeError):
            asyncio.run(asked)


def test_a_browser_may_ask_nobody_else_and_frame_nothing(guard):
    headers = dict(ask(guard)[0]["headers"])
    policy = headers[b"content-security-policy"].decode()
    assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and f"ws://{OURS}" in policy
    assert "http://" not in policy and "https://" not in policy and "*" not in policy


def test_another_address_needs_the_token():
    guard = Guard(inner, hosts_of("0.0.0.0"), 8765, "secret")
    there = "192.168.0.7:8765"
    assert status(guard, host=there) == 403
    assert status(guard, host=there, query="token=wrong") == 403
    assert status(guard, host=there, cookie=f"{COOKIE}=wrong") == 403
    assert status(guard, host=there, cookie=f"{COOKIE}=secret") == 200
    assert ask(guard, kind="websocket", host=there, origin=f"http://{there}")[0]["type"] == "websocket.close"
    assert status(guard, host="evil.example:8765", cookie=f"{COOKIE}=secret") == 400


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "0.0.0.0", "::", "192.168.0.7"])
def test_the_address_that_is_shown_is_one_that_is_let_in(host):
    shown = address_of(host, 8765, "secret").removeprefix("http://").partition("/")[0]
    assert status(Guard(inner, hosts_of(host), 8765), host=shown) == 200
    assert not shown.startswith(("0.0.0.0", "[::]"))


def test_the_token_leaves_the_address_and_becomes_a_cookie():
    guard = Guard(inner, hosts_of("0.0.0.0"), 8765, "secret")
    head = ask(guard, host="192.168.0.7:8765", query="d=50&token=secret")[0]
    headers = dict(head["headers"])
    assert head["status"] == 303 and headers[b"location"] == b"/learn?d=50"
    cookie = headers[b"set-cookie"].decode()
    assert "HttpOnly" in cookie and "SameSite=Lax" in cookie and cookie.startswith(f"{COOKIE}=secret;")
    away = dict(ask(guard, host="192.168.0.7:8765", path="//evil.example", query="token=secret")[0]["headers"])
    assert away[b"location"] == b"/"
