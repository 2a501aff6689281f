"""A visitor as the benchmark of the load has it: a page by raw websockets, no browser."""

import asyncio
import os
import signal
import time

import pytest

pytest.importorskip("websockets", reason="the explorer needs pip install 'limitlab[explorer]'")

from limitlab.benchmarks.house.explorer import Visitor, workers


def test_a_hand_that_is_quicker_than_the_page_is_heard_and_a_killed_worker_is_told(server):
    """Moved before the page was open, a control would fall back to what the address says, and others would run."""

    async def visit():
        end = time.monotonic() + 100
        async with Visitor(server.host, "/escape?d=3000&replicas=32") as one:
            await one.set("seed", "77")
            await one.set("no such control", "1")
            assert await one.begin(end), one.said
            assert "seed=77" in one.address and "d=3000" in one.address, one.address
            os.kill(max(workers(server.process.pid)), signal.SIGKILL)
            assert await one.until("another one takes its place", end), one.said
            assert await one.begin(end), "another run starts on the same page"

    asyncio.run(visit())
    assert server.status("/escape") == 200
