"""Verbs are computed beside the main thread: Ctrl-C is heard inside of a program, and whoever calls notices nothing."""

import json
import signal
import subprocess
import sys

import pytest

import users

CODE = """
import importlib, io, json, os, pathlib, signal, sys, tempfile, threading, time, warnings
import jax, jax.numpy as jnp, numpy as np
import limitlab as ll
from limitlab.verbs import caution, tell, verb

def seconds(work):
    began = time.perf_counter()
    try:
        work()
    except KeyboardInterrupt:
        return "interrupted", time.perf_counter() - began
    return "done", time.perf_counter() - began

@jax.jit
def turns(count):
    return jax.lax.fori_loop(0, count, lambda i, x: jnp.sin(x + 1.0), 0.5)

turns(1)
count = 10**5
while (took := seconds(lambda: turns(count).block_until_ready())[1]) < 0.1:
    count *= 2
count = int(count * 2.5 / took)  # one program that lasts for two and a half seconds

@verb
def long(progress=None):
    return turns(count).block_until_ready()

def stopped(work, after):
    alarm = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    alarm.start()
    return seconds(work)

found = {}
problem = ll.Problem(
    teacher=ll.Committee(1), student=ll.Committee(2), loss=ll.SquareLoss(), start=ll.InformedStart(0.3),
    algorithm=ll.OnlineSGD(0.5),
)
path = ll.predict(problem, times=[0.0, 1.0])
found["aside"] = stopped(long, 0.3)
again = ll.predict(problem, times=[0.0, 1.0])
found["same"] = bool(np.array_equal(path.Q, again.Q))
found["alone"] = stopped(long.__wrapped__, 0.3)

class Terminal(io.StringIO):
    isatty = lambda self: True

usual, sys.stderr = sys.stderr, Terminal()
os.environ["TERM"] = "xterm"
stopped(lambda: long(progress=True), 1.0)
shown = sys.stderr.getvalue()
time.sleep(0.5)
found["bar"] = shown.count("long"), shown.rfind("[?25h") > shown.rfind("[?25l"), sys.stderr.getvalue() == shown
sys.stderr = usual

sys.path.append(tempfile.mkdtemp())
pathlib.Path(sys.path[-1], "slowly.py").write_text(
    "import sys, time\\nsys.loads.append(1)\\nfor _ in range(20): time.sleep(0.05)"
)
sys.loads = []

@verb
def loads(progress=None):
    import slowly

found["import"] = stopped(loads, 0.3)
import slowly  # once it is there: Python waits
found["loads"] = len(sys.loads)

main, theirs = threading.main_thread(), []

class Enough(Exception):
    pass

def watch(done, total, label):
    theirs.append(threading.current_thread() is main)
    if done:
        raise Enough(label)

try:
    ll.predict(problem, times=[0.0, 1.0], progress=watch)
except Enough as error:
    found["raised"] = [str(error), all(theirs)]

@verb
def where(progress=None):
    tell(0, 1, "where")
    caution("mind the step", UserWarning)
    return threading.current_thread() is main, inner(), jnp.ones(1).dtype.name

@verb
def inner(progress=None):
    return threading.current_thread() is main

@verb
def quick():
    return threading.current_thread() is main

with warnings.catch_warnings(record=True) as told:
    warnings.simplefilter("always")
    found["where"] = where()  # this line is shown
found["shown"] = [str(told[0].message), told[0].filename, told[0].lineno]
warnings.simplefilter("ignore")
found["quick"] = quick()
sys.setprofile(lambda *_: None)
found["watched"] = where()[0]
sys.setprofile(None)
with jax.disable_jit():
    found["own settings"] = where()[0]
def other():
    found["thread"] = inner(), threading.current_thread() is main
beside = threading.Thread(target=other)
beside.start()
beside.join()
signal.signal(signal.SIGINT, signal.SIG_IGN)
found["deaf"] = where()[0]
print(json.dumps(found))
"""


def started(*words):
    return subprocess.run(
        [sys.executable, *words],
        env=users.environment(),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


@pytest.fixture(scope="module")
def found():
    done = started("-c", CODE)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_ctrl_c_is_heard_inside_of_a_program(found):
    """Within a second; the library is usable at once, while the program comes to its end by itself."""
    how, seconds = found["aside"]
    assert how == "interrupted" and seconds < 0.3 + 1
    assert found["same"]
    how, seconds = found["alone"]  # in the main thread it waits for the end of the program
    assert how == "interrupted" and seconds > 1.5


def test_a_bar_ends_with_the_call_that_is_given_up(found):
    """The cursor is there again, and what goes on unseen writes nothing."""
    lines, cursor, still = found["bar"]
    assert lines > 0 and cursor and still


def test_an_import_is_not_interrupted(found):
    """The call ends all the same; a library that is half there could not be loaded again."""
    how, seconds = found["import"]
    assert how == "interrupted" and seconds < 0.3 + 1
    assert found["loads"] == 1


TWICE = (
    CODE[: CODE.index("found = {}")]
    + """
for after in json.loads(sys.argv[1]):
    alarm = threading.Timer(after, os.kill, (os.getpid(), signal.SIGINT))
    alarm.daemon = True
    alarm.start()
try:
    seconds(long)
finally:
    print("caught", flush=True)
"""
)


@pytest.mark.parametrize(
    ("signals", "code"),
    [([0.3], 0), ([0.3, 1.2], 130), ([0.3, 0.5, 1.2], 130)],
    ids=["once", "again at the end", "three times"],
)
def test_python_ends_in_good_order_however_often_ctrl_c_comes(signals, code):
    """After one it waits for what goes on unseen, as it does for other threads; one that comes then ends it."""
    done = started("-c", TWICE, json.dumps(signals))
    assert (done.returncode, done.stdout) == (code, "caught\n"), done.stderr


def test_what_the_user_is_told_and_raises_stays_in_their_thread(found):
    assert found["raised"] == ["predict (OverlapODE)", True]


def test_a_warning_shows_the_line_that_called_the_verb(found):
    line = CODE[: CODE.index("# this line is shown")].count("\n") + 1
    assert found["shown"] == ["mind the step", "<string>", line]


def test_only_the_outermost_verb_that_may_take_long_leaves_the_main_thread(found):
    assert found["where"] == [False, False, "float64"]
    assert found["quick"] is True
    assert found["thread"] == [False, False]


def test_who_watches_or_has_settings_of_their_own_or_hears_no_signal_keeps_it(found):
    assert found["watched"] and found["own settings"] and found["deaf"]
