"""Every source that the code names is in the one list, and cite finds it."""

import importlib
import pkgutil
import re

import pytest

import limitlab as ll
import limitlab.macro
from limitlab.algorithms.checks import SPHERE
from limitlab.cite import cite, parse_entries, references
from limitlab.errors import InputError
from limitlab.macro.limit import AbstractLimit
from limitlab.spec import known_kinds

PROBLEM = ll.Problem(
    teacher=ll.Committee(width=1, activation="tanh"),
    student=ll.Committee(width=2),
    start=ll.RandomStart(),
    algorithm=ll.OnlineSGD(learning_rate=0.5, spherical=True),
)


def all_limits(base=AbstractLimit):
    for info in pkgutil.walk_packages(limitlab.macro.__path__, "limitlab.macro."):
        importlib.import_module(info.name)
    for cls in base.__subclasses__():
        if not cls.__name__.startswith("Abstract") and cls.__module__.startswith("limitlab."):
            yield cls
        yield from all_limits(cls)


def keys(text):
    return re.findall(r"^@\w+\{([^,]+),", text, re.MULTILINE)


def test_every_limit_names_a_source_that_exists():
    limits = list(all_limits())
    assert ll.OverlapODE in limits
    for limit in limits:
        assert limit.reference in references(), limit.__name__
        assert limit.reference in keys(cite(limit=limit))


def test_every_source_that_a_part_names_exists():
    kinds = {kind for group in known_kinds().values() for kind in group.values()}
    named = {key for kind in kinds if isinstance(own := getattr(kind, "reference", ()), tuple) for key in own}
    assert {"saad1995online", "mondelli2019fundamental", "benarous2021online"} <= named
    assert named <= set(references())
    assert set(SPHERE) <= set(references())


@pytest.mark.parametrize(
    ("part", "named"),
    [
        ({"start": ll.SpectralStart()}, ["mondelli2019fundamental"]),
        ({"algorithm": ll.GAMP()}, ["rangan2011generalized"]),
        (
            {"inputs": ll.Gaussian(spectrum=ll.Spectrum([1.0, 2.0])), "algorithm": ll.OnlineSGD(0.1)},
            ["saad1995online", "loureiro2021learning"],
        ),
        ({"algorithm": ll.Langevin(0.1, 1.0)}, ["benarous2021online", "arnaboldi2023escaping"]),
        ({"algorithm": ll.Langevin(0.1, 1.0, spherical=False)}, []),
        ({"algorithm": ll.PersistentSGD(0.1, 0.5, 1.0, spherical=False)}, ["mignacco2021stochasticity"]),
        ({"algorithm": ll.LayerwiseSGD(0.1, switch_time=1.0)}, ["abbe2022merged"]),
        ({"student": ll.Committee(2, "sigmoid")}, ["stefanski1991normal"]),
        ({"student": ll.Committee(2, "shifted(tanh, 0.5)")}, ["stefanski1991normal"]),
        ({"student": ll.Committee(2, "relu")}, []),
    ],
)
def test_a_part_is_cited_for_what_it_is(part, named):
    assert keys(cite(ll.Problem(teacher=ll.Committee(width=1), **part))) == ["limitlab", *named]


def test_a_part_of_a_users_own_is_cited():
    class Noise(ll.GaussianNoise):
        reference = "barbier2019optimal"

    class Rule(ll.OnlineSGD):
        def references(self):
            return ("abbe2022merged",) if self.learning_rate > 1 else ()

    teacher = ll.Committee(width=1)
    assert keys(cite(ll.Problem(teacher=teacher, channel=Noise()))) == ["limitlab", "barbier2019optimal"]
    assert keys(cite(ll.Problem(teacher=teacher, algorithm=Rule(2.0)))) == ["limitlab", "abbe2022merged"]
    assert keys(cite(ll.Problem(teacher=teacher, algorithm=Rule(0.5)))) == ["limitlab"]


def test_cite_lists_each_source_once_library_first():
    found = keys(cite(PROBLEM, [ll.OverlapODE(), ll.OverlapODE]))
    assert found[0] == "limitlab"
    assert len(found) == len(set(found))
    assert {"saad1995online", "benarous2021online", "arnaboldi2023escaping", "stefanski1991normal"} <= set(found)
    assert keys(cite()) == ["limitlab"]


def test_what_was_not_used_is_not_cited():
    plain = ll.Problem(teacher=ll.Committee(width=1), algorithm=ll.OnlineSGD(learning_rate=0.5))
    assert keys(cite(plain)) == ["limitlab", "saad1995online"]


def test_entries_are_whole_bibtex():
    assert len(references()) >= 12
    for key, entry in references().items():
        assert entry.startswith("@")
        assert entry.count("{") == entry.count("}")
        assert re.search(r"^  title = \{", entry, re.MULTILINE), key
        assert re.search(r"^  author = \{", entry, re.MULTILINE), key
        assert re.search(r"^  year = \{\d{4}\}", entry, re.MULTILINE), key
    assert keys(cite()) == ["limitlab"]


def test_broken_bibtex_is_refused():
    good = "@misc{a,\n  title = {A {B}}\n}\n"
    assert parse_entries(good) == {"a": good.strip()}
    with pytest.raises(InputError, match="'a' comes twice"):
        parse_entries(good + good)
    with pytest.raises(InputError, match="'a' does not close"):
        parse_entries("@misc{a,\n  title = {A\n}\n\n@misc{b,\n  title = {B}}\n}\n")
    with pytest.raises(InputError, match="'a' does not close"):
        parse_entries("@misc{a,\n  title = {A}\n")


def test_what_has_no_source_is_refused_in_words():
    with pytest.raises(InputError, match="needs a Problem"):
        cite(ll.OverlapODE())  # type: ignore[arg-type]
    with pytest.raises(InputError, match="limits such as OverlapODE"):
        cite(PROBLEM, "OverlapODE")

    class Elsewhere:
        reference = "nobody2020nothing"

    with pytest.raises(InputError, match=r"'nobody2020nothing' is not in references\.bib"):
        cite(PROBLEM, Elsewhere())
