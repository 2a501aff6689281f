"""The explorer on this machine: first paint, a slider move, a second visit, and twenty visitors at once.

Visitors speak to a server of their own through raw websockets, each on a fresh connection, as a browser would. They
stay for three minutes; LIMITLAB_LOAD names another number of seconds. First paint needs chromium and playwright.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import socket
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from limitlab.benchmarks.table import Table, run

VISITORS, PAUSE = 20, 2.0
SECONDS = float(os.environ.get("LIMITLAB_LOAD", "180"))
PATIENCE = 60.0  # seconds after which an answer counts as lost
LEAVE = 45.0  # seconds after which a server has forgotten who left
FOLLOWED = "theory with noise"  # the curve whose change is the answer to a move


@contextlib.contextmanager
def served() -> Iterator[tuple[str, int]]:
    """``limitlab explore`` on a free port: host and process."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        host = f"127.0.0.1:{free.getsockname()[1]}"
    command = ["-m", "limitlab.cli", "explore", "--port", host.rpartition(":")[2], "--no-browser"]
    process = subprocess.Popen([sys.executable, *command], stdout=subprocess.DEVNULL)
    try:
        while True:
            with contextlib.suppress(OSError):
                urllib.request.urlopen(f"http://{host}/", timeout=5).close()
                break
            time.sleep(0.2)
        yield host, process.pid
    finally:
        process.terminate()
        process.wait(30)


class Visitor:
    """One page, opened as a browser opens it."""

    def __init__(self, host: str, path: str):
        self.host, self.path, self.curve, self.lost = host, path, "", 0

    async def __aenter__(self) -> "Visitor":
        from websockets.asyncio.client import connect  # pyright: ignore[reportMissingImports]

        got = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{self.host}{self.path}").read().decode())
        self.client = re.search(r'"client_id": ?"([^"]+)"', got.replace("'", '"'))[1]  # pyright: ignore
        listener = re.search(r'"listener_id":"([^"]+)","type":"field"', got)
        self.listener = listener[1]  # pyright: ignore
        own = f"tab_id=t{id(self)}&document_id=d{id(self)}"
        query = f"client_id={self.client}&next_message_id=0&implicit_handshake=true&{own}"
        address = f"ws://{self.host}/_nicegui_ws/socket.io/?EIO=4&transport=websocket&{query}"
        origin: Any = f"http://{self.host}"
        self._line = connect(address, origin=origin, max_size=1 << 24, ping_interval=None)
        self.line = await self._line.__aenter__()
        self.changed = asyncio.Event()
        await self.line.recv()
        await self.line.send("40")
        self.reading = asyncio.create_task(self._read())
        return self

    async def __aexit__(self, *error: Any) -> None:
        self.reading.cancel()
        await self._line.__aexit__(None, None, None)

    async def _read(self) -> None:
        async for text in self.line:
            text = text if isinstance(text, str) else text.decode()
            if text == "2":
                await self.line.send("3")
            elif text.startswith("42"):
                name, *rest = json.loads(text[2:])
                if name == "run_javascript" and rest[0].get("request_id"):
                    screen = {"dark": False, "narrow": False, "query": self.path.partition("?")[2]}
                    await self._emit("javascript_response", {"request_id": rest[0]["request_id"], "result": screen})
                elif name == "update":
                    self._look(rest[0])

    def _look(self, update: dict[str, Any]) -> None:
        for element in [element for element in update.values() if isinstance(element, dict)]:
            figure = (element.get("props") or {}).get("options")
            for trace in figure.get("data", []) if isinstance(figure, dict) else []:
                if str(trace.get("name", "")).startswith(FOLLOWED) and json.dumps(trace["y"]) != self.curve:
                    self.curve = json.dumps(trace["y"])
                    self.changed.set()
                    break

    async def _emit(self, name: str, content: dict[str, Any]) -> None:
        await self.line.send("42" + json.dumps([name, {"client_id": self.client, **content}]))

    async def answer(self) -> float:
        """Seconds until the curve is another one; infinite if it never is."""
        began = time.perf_counter()
        try:
            await asyncio.wait_for(self.changed.wait(), PATIENCE)
        except TimeoutError:
            self.lost += 1
            return float("inf")
        return time.perf_counter() - began

    async def move(self, key: str, value: float) -> float:
        """Move a slider: seconds until the curve has followed."""
        self.changed.clear()
        told = json.dumps({"key": key, "value": f"{value:.6g}", "last": True})
        await self._emit("event", {"id": 0, "listener_id": self.listener, "args": [told]})
        return await self.answer()


async def _warm(host: str) -> None:
    async with Visitor(host, "/escape") as one:
        await one.answer()
        for k in range(6):
            await one.move("rate", 0.05 + 0.002 * k)


def slider(table: Table) -> None:
    async def measured(host: str) -> tuple[list[float], float]:
        await _warm(host)
        async with Visitor(host, "/escape") as one:
            await one.answer()
            moves = [await one.move("rate", 0.1 + 0.001 * k) for k in range(20)]
        visits = []
        for _ in range(5):
            async with Visitor(host, "/escape?rate=0.119") as again:
                visits.append(await again.answer())
        return moves, statistics.median(visits)

    with served() as (host, _):
        moves, again = asyncio.run(measured(host))
    middle = statistics.median(moves)
    table.add("a slider move until the curve has followed, warm, seconds", f"{middle:.3f}", "<= 0.3", middle <= 0.3)
    table.add("a second visit to the same settings, until the curve, seconds", f"{again:.3f}", "<= 0.5", again <= 0.5)


def paint(table: Table) -> None:
    """First contentful paint in chromium, after the server is up."""
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    try:
        from playwright.sync_api import sync_playwright  # pyright: ignore[reportMissingImports]
    except ImportError:
        chromium = None
    if chromium is None:
        table.add("first paint", "not measured", "needs chromium and playwright")
        return
    seen = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
    with served() as (host, _), sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for path in ("/", "/learn", "/escape", "/samples"):
            tab = browser.new_page()
            tab.goto(f"http://{host}{path}")
            tab.wait_for_function(f"{seen} > 0")
            seconds = float(tab.evaluate(seen)) / 1000
            table.add(f"first paint of {path}, seconds", f"{seconds:.2f}", "<= 2", seconds <= 2)
            tab.close()
        browser.close()


def load(table: Table) -> None:
    """Twenty visitors, one of them with heavy runs; a worker that is killed is replaced."""

    async def stay(host: str, number: int, end: float, taken: list[float]) -> int:
        await asyncio.sleep(PAUSE * number / VISITORS)
        async with Visitor(host, f"/escape?d={1000 + 10 * number}") as one:
            await one.answer()
            value = 0.05
            while time.monotonic() < end:
                value = 0.05 if value > 0.15 else value + 0.001
                began = time.monotonic()
                taken.append(await one.move("rate", value + 1e-5 * number))
                await asyncio.sleep(max(0.0, PAUSE - (time.monotonic() - began)))
            return one.lost

    async def heavy(host: str, end: float) -> int:
        async with Visitor(host, "/learn?target=z1*z2&step=0.01") as one:
            while time.monotonic() < end:
                told = json.dumps({"key": "seed", "value": str(int(time.monotonic()) % 1000), "last": True})
                await one._emit("event", {"id": 0, "listener_id": one.listener, "args": [told]})
                await asyncio.sleep(PAUSE)
        return 0

    async def all_of_them(host: str) -> tuple[list[float], int]:
        taken: list[float] = []
        end = time.monotonic() + SECONDS
        crowd = [stay(host, n, end, taken) for n in range(VISITORS - 1)]
        lost = await asyncio.gather(*crowd, heavy(host, end))
        return taken, sum(lost)

    with served() as (host, pid):
        asyncio.run(_warm(host))
        asyncio.run(all_of_them_warm(host))
        time.sleep(LEAVE)
        before = resident(pid)
        taken, lost = asyncio.run(all_of_them(host))
        time.sleep(LEAVE)
        after = resident(pid)
    middle = statistics.median(taken)
    about = f"{VISITORS} visitors for {SECONDS:g} s, {len(taken)} moves"
    table.add(f"{about}: median answer, seconds", f"{middle:.3f}", "<= 0.5", middle <= 0.5)
    table.add("the slowest of twenty answers, seconds", f"{sorted(taken)[int(0.95 * len(taken))]:.3f}")
    table.add("answers lost", f"{lost}", "<= 0", lost == 0)
    table.ratio("memory of the server after they left / before they came", after, before, "<= 1.2")


async def all_of_them_warm(host: str) -> None:
    """A few visitors that come and go, so that memory before is that of a server in use."""
    for _ in range(3):
        async with Visitor(host, "/escape") as one:
            await one.answer()
            await one.move("rate", 0.06)


def resident(pid: int) -> float:
    """Bytes that a process has in memory, and its children."""
    total = 0.0
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if folder.name.isdigit():
                parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
                if pid in (parent, int(folder.name)):
                    total += int((folder / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


if __name__ == "__main__":
    run({"paint": paint, "slider": slider, "load": load})
