"""The explorer on this machine: first paint, a slider move, a second visit, and twenty visitors at once.

Visitors speak to a server of their own through raw websockets, each on a fresh connection, as a browser would. They
stay for three minutes, one of them with run after run, and in the middle the worker of these runs is killed with -9.
LIMITLAB_LOAD names another number of seconds. First paint needs chromium and playwright.
"""

import asyncio
import contextlib
import json
import os
import re
import shutil
import signal
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
AGAIN = 2.0  # seconds after which *run it* is pressed again
LEAVE = 30.0  # seconds after which a server has forgotten who left
HEAVY = "/learn?step=0.004"  # eight runs that take about twenty seconds
BUTTON = re.compile(  # the number and the listener of *run it* in the page
    r'"(\d+)":\{"tag":"nicegui-html"(?:,"class":\[[^]]*\])?,"props":\{"innerHTML":"run it"[^}]*\},'
    r'"events":\[\{"listener_id":"([^"]+)"'
)
READY = "workers ready"
FOLLOWED = {  # the curve whose change is the answer to a move, by page
    "/escape": "theory with noise",
    "/samples": "free entropy",
}


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
        self.followed = FOLLOWED.get(path.partition("?")[0], "")
        self.said = self.address = ""  # what the page said last of its run, and where it said to be

    async def __aenter__(self) -> "Visitor":
        from websockets.asyncio.client import connect  # pyright: ignore[reportMissingImports]

        got = await asyncio.to_thread(lambda: urllib.request.urlopen(f"http://{self.host}{self.path}").read().decode())
        self.client = re.search(r'"client_id": ?"([^"]+)"', got.replace("'", '"'))[1]  # pyright: ignore
        listener = re.search(r'"listener_id":"([^"]+)","type":"field"', got)
        self.listener = listener[1]  # pyright: ignore
        self.button = BUTTON.search(got)
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
                elif name == "run_javascript" and "explorer.address(" in rest[0]["code"]:
                    self.address = rest[0]["code"]
                elif name == "update":
                    self._look(rest[0])

    def _look(self, update: dict[str, Any]) -> None:
        for element in [element for element in update.values() if isinstance(element, dict)]:
            own = element.get("props") or {}
            if "state" in (element.get("class") or []):
                self.said = str(own.get("innerHTML", ""))
            figure = own.get("options")
            for trace in figure.get("data", []) if isinstance(figure, dict) and self.followed else []:
                if str(trace.get("name", "")).startswith(self.followed) and json.dumps(trace["y"]) != self.curve:
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
        await self.set(key, f"{value:.6g}")
        return await self.answer()

    async def set(self, key: str, value: str) -> None:
        told = json.dumps({"key": key, "value": value, "last": True})
        await self._emit("event", {"id": 0, "listener_id": self.listener, "args": [told]})

    async def press(self) -> None:
        """*run it*."""
        number, listener = self.button.groups()  # pyright: ignore
        await self._emit("event", {"id": int(number), "listener_id": listener, "args": ["{}"]})

    async def begin(self, end: float) -> bool:
        """Press *run it* until the page says that a run is on; whether it does before that moment."""
        while time.monotonic() < end:
            await asyncio.sleep(0.5)
            await self.press()  # a page that is not open yet, or has a full queue, hears it in vain
            if await self.until("Waiting for a worker|Running", min(end, time.monotonic() + AGAIN)):
                return await self.until("Running: [1-9]", end)
        return False

    async def until(self, words: str, end: float) -> bool:
        """Whether the page says these words before that moment."""
        while time.monotonic() < end:
            if re.search(words, self.said):
                return True
            await asyncio.sleep(0.05)
        return False


def ready(host: str) -> None:
    """Wait until all workers have computed the first answers: moves are measured warm."""
    while READY not in urllib.request.urlopen(f"http://{host}/").read().decode():
        time.sleep(1.0)


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
        ready(host)
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
    with served() as (host, _), sync_playwright() as driver:  # at once: workers are still warming up
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for path in ("/", "/learn", "/escape", "/samples"):
            tab = browser.new_page()
            tab.goto(f"http://{host}{path}")
            tab.wait_for_function(f"{seen} > 0")
            seconds = float(tab.evaluate(seen)) / 1000
            table.add(f"first paint of {path}, seconds", f"{seconds:.2f}", "<= 2", seconds <= 2)
            tab.close()
        browser.close()


class Crowd:
    """Twenty visitors, one of them with run after run, and what they saw."""

    def __init__(self, host: str, pid: int, seconds: float):
        self.host, self.pid = host, pid
        self.end = time.monotonic() + seconds
        self.middle = time.monotonic() + seconds / 2
        self.taken: list[float] = []
        self.lost = self.runs = self.after = 0
        self.told = float("nan")

    async def stay(self, number: int) -> None:
        """A slider every two seconds: on one page the learning rate, on another the samples per weight."""
        page, key, first, step = PLACES[number % len(PLACES)]
        await asyncio.sleep(PAUSE * number / VISITORS)
        async with Visitor(self.host, page) as one:
            await one.answer()
            for k in range(10**6):
                if time.monotonic() > self.end:
                    break
                began = time.monotonic()
                self.taken.append(await one.move(key, first + step * (k % 100) + 1e-2 * step * number))
                await asyncio.sleep(max(0.0, PAUSE - (time.monotonic() - began)))
            self.lost += one.lost

    async def run_on(self) -> None:
        """Run after run; the worker of the first one that begins after half of the time is killed."""
        killed = False
        async with Visitor(self.host, HEAVY) as one:
            seed = 1
            while time.monotonic() < self.end:
                await one.set("seed", str(seed))
                if not await one.begin(self.end):
                    break
                if killed or time.monotonic() < self.middle:
                    if await one.until("Theory and runs", self.end):
                        self.runs += 1
                        self.after += killed
                else:  # it runs by now, and has just begun
                    killed = True
                    os.kill(max(workers(self.pid)), signal.SIGKILL)  # the first one takes no runs
                    began = time.monotonic()
                    if await one.until("another one takes its place", self.end):
                        self.told = time.monotonic() - began
                seed += 1

    async def all(self) -> None:
        await asyncio.gather(*(self.stay(number) for number in range(VISITORS - 1)), self.run_on())


PLACES = (("/escape", "rate", 0.05, 0.001), ("/samples", "alpha", 0.6, 0.005))


def load(table: Table) -> None:
    """Twenty visitors; a worker that is killed is replaced, its job says so, and the page goes on."""
    with served() as (host, pid):
        ready(host)
        asyncio.run(_used(host))
        time.sleep(LEAVE)
        before = resident(pid)
        crowd = Crowd(host, pid, SECONDS)
        asyncio.run(crowd.all())
        time.sleep(LEAVE)
        after, alive = resident(pid), len(workers(pid))
    taken = sorted(crowd.taken)
    middle = statistics.median(taken)
    about = f"{VISITORS} visitors for {SECONDS:g} s, {len(taken)} moves, {crowd.runs} heavy runs"
    table.add(f"{about}: median answer, seconds", f"{middle:.3f}", "<= 0.5", middle <= 0.5)
    table.add("nineteen of twenty answers come within, seconds", f"{taken[int(0.95 * len(taken))]:.3f}")
    table.add("answers lost", f"{crowd.lost}", "<= 0", crowd.lost == 0)
    table.ratio("memory of server and workers after they left / before they came", after, before, "<= 1.2")
    told = crowd.told
    table.add("a worker is killed: seconds until its page says so", f"{told:.2f}", "<= 2", told <= 2)
    table.add("after it, a run on the same page is finished", f"{crowd.after}", ">= 1", crowd.after >= 1)
    table.add("workers at the end", f"{alive}", ">= 2", alive >= 2)


async def _used(host: str) -> None:
    """Visitors that come, move and go, so that memory before is that of a server in use."""
    for page, key, first, step in PLACES * 2:
        async with Visitor(host, page) as one:
            await one.answer()
            for k in range(6):
                await one.move(key, first + step * k)
    async with Visitor(host, HEAVY) as one:
        await asyncio.sleep(2)
        await one.press()
        await one.until("Theory and runs", time.monotonic() + PATIENCE)


def workers(pid: int) -> list[int]:
    """The processes that compute for a server."""
    found = []
    for folder in Path("/proc").iterdir():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if folder.name.isdigit() and b"limitlab.jobs.worker" in (folder / "cmdline").read_bytes():
                if int((folder / "stat").read_text().rpartition(")")[2].split()[1]) == pid:
                    found.append(int(folder.name))
    return found


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
