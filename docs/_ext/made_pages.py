"""Pages that are made from the package when the site is built: names, errors, entries of the gallery.

They are written into ``docs/api``, ``docs/errors`` and ``docs/gallery``, which git ignores. A file is touched only if
its text changed, so that a second build reads few pages.
"""

import importlib
import inspect
import os
import re
import shutil
import types
from pathlib import Path
from typing import Any

import limitlab
from limitlab.gallery import ENTRIES, FOLDERS, MODULES
from limitlab.problems.part import Part

__all__ = ["public_pages", "setup"]

MODULE_NAMES = ("limitlab", "limitlab.analysis", "limitlab.library", "limitlab.extending", "limitlab.testing")
ERRORS = "limitlab.errors"
FAMILIES = {
    "sparse": "Sparse targets on the hypercube",
    "committees": "One-pass SGD of committees",
    "linear": "One direction: how few samples are enough",
    "multi": "Several directions",
    "descent": "Descent on a fixed data set",
    "data": "Data as they are",
    "mixtures": "Mixtures and flows of measures",
    "spectra": "Structured inputs",
}

ROLES = [".. role:: holds", "   :class: holds", "", ".. role:: fails", "   :class: fails", ""]


# --- names -----------------------------------------------------------------------------------------------------------


def public_pages() -> dict[str, str]:
    """Every public name, such as limitlab.analysis.regime -> its page; one that has two names has one page."""
    pages: dict[str, str] = {}
    seen: dict[int, str] = {}
    for module, name, value in _public():
        full = f"{module}.{name}"
        first = seen.setdefault(id(value), full)
        pages[full] = pages.get(first) or f"{'errors' if module == ERRORS else 'api/' + _kind(value)}/{_leaf(full)}"
    return pages


def _public() -> list[tuple[str, str, Any]]:
    out = []
    for module in (*MODULE_NAMES, ERRORS):
        home = importlib.import_module(module)
        for name in home.__all__:
            value = getattr(home, name)
            if not isinstance(value, types.ModuleType):
                out.append((module, name, value))
    return out


def _leaf(full: str) -> str:
    return full.removeprefix(f"{ERRORS}.")


def _kind(value: Any) -> str:
    return "class" if inspect.isclass(value) else "function" if callable(value) else "data"


def _summary(value: Any) -> str:
    """The first paragraph of a docstring on one line."""
    text = inspect.getdoc(value) if callable(value) else ""
    return " ".join((text or "").split("\n\n")[0].split())


def _members(cls: type) -> dict[str, Any]:
    """Methods and properties that tell something about this class: its own, and of an abstract one all that it has."""
    part = issubclass(cls, Part)
    own = part and not inspect.isabstract(cls) and not cls.__name__.startswith("Abstract")
    outside = {Part, object} if part else {object}
    found = {}
    for base in cls.__mro__:
        if base in outside or not base.__module__.startswith("limitlab") or (own and base is not cls):
            continue
        for name, value in vars(base).items():
            if name.startswith("_") or name in found or not _documented(value):
                continue
            if own and any(name in vars(other) for other in cls.__mro__[1:]):
                continue
            found[name] = value
    return found


def _documented(value: Any) -> bool:
    inner = getattr(value, "__func__", getattr(value, "fget", getattr(value, "method", value)))
    ours = getattr(inner, "__module__", "").startswith("limitlab")  # scikit-learn puts methods into classes
    return ours and (inspect.isroutine(inner) or hasattr(value, "method")) and bool(inspect.getdoc(inner))


def _name_page(module: str, name: str, value: Any) -> str:
    lines = [f"{module}.{name}", "=" * (len(module) + len(name) + 1), ""]
    kind = _kind(value)
    if kind == "class" and value.__name__ != name:  # a second name, which autodoc would call an alias and no more
        module, name = value.__module__, value.__name__
    lines += [f".. currentmodule:: {module}", ""]
    lines.append(f".. auto{kind}:: {name}")
    if kind == "class" and not issubclass(value, BaseException):
        for member, what in _members(value).items():
            kind_of_member = "property" if isinstance(what, property) else "method"
            lines += ["", f"   .. auto{kind_of_member}:: {name}.{member}"]
    if kind == "data":
        lines.append("   :no-value:")
    return "\n".join(lines) + "\n"


def _api() -> dict[str, str]:
    pages = public_pages()
    files: dict[str, str] = {}
    written: set[str] = set()
    index = ["API reference", "=============", ""]
    index += [
        "Every public name, with what it takes and gives. ``import limitlab as ll`` is enough for the first table. "
        "What can go wrong is under :doc:`/errors/index`.",
        "",
    ]
    for module in MODULE_NAMES:
        home = importlib.import_module(module)
        about = inspect.cleandoc(home.__doc__ or "").split("\n\n")[0].rstrip(":")
        index += [module, "-" * len(module), "", about, ""]
        index += [".. list-table::", "   :widths: 30 70", "   :class: names", ""]
        rows = [(name, value) for where, name, value in _public() if where == module]
        for name, value in sorted(rows, key=lambda row: (not row[0][0].isupper(), row[0].lower())):
            page = pages[f"{module}.{name}"]
            words = _escape_bars([_summary(value)])[0] or "Problems by name."
            index += [f"   * - :doc:`{name} </{page}>`", f"     - {words}"]
            if page not in written:
                written.add(page)
                files[f"{page}.rst"] = ":orphan:\n\n" + _name_page(module, name, value)
        index.append("")
    index += [".. toctree::", "   :hidden:", "", "   /errors/index", ""]
    files["api/index.rst"] = "\n".join(index)
    return files


def escape_bars(app: Any, what: str, name: str, value: Any, options: Any, lines: list[str]) -> None:
    """|x| in a docstring is a norm; reStructuredText would take it for the name of a substitution."""
    lines[:] = _escape_bars(lines)


def _escape_bars(lines: list[str]) -> list[str]:
    out, inside = [], -1  # the indentation of a formula that spans lines
    for line in lines:
        depth = len(line) - len(line.lstrip())
        if inside >= 0 and line.strip() and depth <= inside:
            inside = -1
        if inside < 0 and line.lstrip().startswith(".. math::"):
            inside = depth
        if inside >= 0 or line.lstrip().startswith((">>>", "...")):
            out.append(line)
            continue
        spans = re.split(r"(``.*?``|:\w+:`.*?`)", line)
        out.append("".join(s if i % 2 else re.sub(r"(?<!\\)\|", r"\\|", s) for i, s in enumerate(spans)))
    return out


# --- errors ----------------------------------------------------------------------------------------------------------


def _errors() -> dict[str, str]:
    module = importlib.import_module(ERRORS)
    files, names = {}, list(module.__all__)
    head, *rest = inspect.cleandoc(module.__doc__ or "").split("\n\n")
    index = ["Errors and warnings", "===================", "", head, "", *("\n\n".join(rest)).split("\n"), ""]
    index += [".. list-table::", "   :widths: 28 72", "   :class: names", ""]
    for name in names:
        value = getattr(module, name)
        index += [f"   * - :doc:`{name}`", f"     - {_summary(value)}"]
        title = f"{name}\n{'=' * len(name)}\n\n"
        bases = [base.__name__ for base in value.__mro__[1:] if base not in (object, BaseException)]
        also = ", ".join(f"``{base}``" for base in bases)
        body = f".. currentmodule:: {ERRORS}\n\n.. autoexception:: {name}\n\nAlso caught as: {also}.\n"
        files[f"errors/{name}.rst"] = title + body
    index += ["", ".. toctree::", "   :hidden:", "", *(f"   {name}" for name in names), ""]
    files["errors/index.rst"] = "\n".join(index)
    return files


# --- gallery ---------------------------------------------------------------------------------------------------------


def runs_of(source: Path) -> dict[str, Path]:
    """Entry -> the folder of its run, of those that were run: a run of its own first, then that of a report.

    They are in LIMITLAB_RUNS, or in limitlab-runs beside the folder docs: ``NAME`` is what ``limitlab run NAME``
    leaves, ``entries/NAME`` what ``limitlab run all --report`` leaves in its folder (``report`` if none is named).
    """
    here = Path(os.environ.get("LIMITLAB_RUNS") or source.parent / "limitlab-runs")
    places = (here, here / "entries", here / "report" / "entries")
    found = {
        name: next((at / name for at in places if (at / name / "verdict.txt").is_file()), None) for name in ENTRIES
    }
    return {name: folder for name, folder in found.items() if folder is not None}


def _gallery(source: Path) -> tuple[dict[str, str], dict[str, Path]]:
    """Pages of all entries, and the files of runs to be shown: name in the site -> where it is."""
    runs, files, copies = runs_of(source), {}, {}
    index = [*ROLES, "Gallery", "=======", ""]
    index += [
        "Figures of the literature, made anew. Each has a claim that could be false and is checked when it is made. "
        '``limitlab run NAME`` makes one; ``ll.run("NAME")`` does so in a notebook; :doc:`/report` has them all.',
        "",
        f"This site shows the runs that were there when it was built: {len(runs)} of {len(ENTRIES)}. "
        + ("" if len(runs) == len(ENTRIES) else "Of the others it has the claim and the code."),
        "",
    ]
    for folder, names in FOLDERS.items():
        title = FAMILIES[folder]
        index += [title, "-" * len(title), "", ".. list-table::", "   :widths: 26 60 14", "   :header-rows: 1"]
        index += ["   :class: names", ""]
        index += ["   * - ``limitlab run``", "     - claim", "     - verdict"]
        for name in names.split():
            text, found, holds = _entry_page(name, runs.get(name))
            files[f"gallery/{name}.rst"] = text
            copies |= found
            word = {True: ":holds:`holds`", False: ":fails:`fails`", None: "not run"}[holds]
            said = f"*{_escaped(ENTRIES[name].title)}.* {_escaped(ENTRIES[name].claim)}"
            index += [f"   * - :doc:`{name} <{name}>`", f"     - {said}", f"     - {word}"]
        index.append("")
    index += [".. toctree::", "   :hidden:", "", *(f"   {name}" for name in ENTRIES), ""]
    files["gallery/index.rst"] = "\n".join(index)
    return files, copies


def _entry_page(name: str, folder: Path | None) -> tuple[str, dict[str, Path], bool | None]:
    entry, module = ENTRIES[name], importlib.import_module(MODULES[name])
    lines = [*ROLES, entry.title, "=" * len(entry.title), "", f"**Claim.** {_escaped(entry.claim)}", ""]
    lines += ["::", "", f"    limitlab run {name}", ""]
    copies: dict[str, Path] = {}
    holds = None
    if folder is None:
        lines += [
            "This entry was not run for this site. The command above takes about "
            f"{_duration(entry.seconds)} on two cores and leaves figure, data and verdict in ``limitlab-runs/{name}``.",
            "",
        ]
    else:
        text = (folder / "verdict.txt").read_text(encoding="utf-8")
        holds = "The claim holds" in text
        if (folder / "figure.png").is_file():
            copies[f"gallery/{name}/figure.png"] = folder / "figure.png"
            lines += [f".. image:: {name}/figure.png", f"   :alt: {_one_line(f'{entry.title}. {entry.claim}')}", ""]
        lines += ["Verdict", "-------", "", *_verdict(text)]
        data = sorted(folder.glob("*.nc"))
        if data:
            lines += ["Data", "----", "", "Results in the :doc:`schema </schema>`, read by ``ll.load``:", ""]
            for path in data:
                copies[f"gallery/{name}/{path.name}"] = path
                lines.append(f"- :download:`{path.name} <{name}/{path.name}>` ({_size(path.stat().st_size)})")
            lines.append("")
    about = "\n".join(_escape_bars(inspect.cleandoc(module.__doc__ or "").splitlines()))
    code = Path(inspect.getsourcefile(module) or "")
    lines += ["How it is done", "--------------", "", about, "", "The code of the entry", "---------------------", ""]
    lines += [".. code-block:: python", "", *(f"    {line}".rstrip() for line in code.read_text().splitlines()), ""]
    return "\n".join(lines), copies, holds


def _verdict(text: str) -> list[str]:
    """verdict.txt as a table of its checks, then what it says at its end: the count, quick sizes, time, versions."""
    lines = text.strip().splitlines()
    checks = [number for number, line in enumerate(lines) if line.startswith("[")]
    table = [".. list-table::", "   :widths: 14 86", ""]
    for number in checks:
        word, _, statement = lines[number][1:].partition("] ")
        detail = lines[number + 1].strip() if lines[number + 1].startswith("    ") else ""
        role = {"ok": ":holds:`holds`", "FAILED": ":fails:`fails`"}.get(word, word)
        table += [f"   * - {role}", f"     - {_escaped(statement)}"]
        table += ["", f"       *{_escaped(detail)}*"] if detail else []
    last = max(checks) + 1 + lines[max(checks) + 1].startswith("    ")
    return [*table, "", *(line for said in lines[last:] if said for line in (_escaped(said), ""))]


def _escaped(text: str) -> str:
    return re.sub(r"([*`|\\_])", r"\\\1", text)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _size(count: int) -> str:
    return f"{count / 1e6:.1f} MB" if count > 1e5 else f"{count / 1e3:.0f} kB"


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} seconds" if seconds < 100 else f"{seconds / 60:.0f} minutes"


# --- writing ---------------------------------------------------------------------------------------------------------


def write(app: Any) -> None:
    source = Path(app.srcdir)
    gallery, copies = _gallery(source)
    files = {**_api(), **_errors(), **gallery}
    for name, text in files.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")
    for name, origin in copies.items():
        path = source / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.is_file() or path.stat().st_mtime < origin.stat().st_mtime:
            shutil.copyfile(origin, path)
    for folder in ("api", "errors", "gallery"):
        for path in (source / folder).rglob("*"):
            if path.is_file() and path.relative_to(source).as_posix() not in {*files, *copies}:
                path.unlink()


def setup(app: Any) -> dict[str, Any]:
    assert limitlab.__version__
    app.connect("builder-inited", write)
    app.connect("autodoc-process-docstring", escape_bars, priority=400)  # before numpydoc
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
