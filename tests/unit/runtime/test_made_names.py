"""Made names: like the API server's, and the same again for a create that is in doubt."""

from __future__ import annotations

from random import Random

from edgewise.kube.objects import Key
from edgewise.runtime.made_names import MadeNames
from edgewise.runtime.reconciling import Reconciling

WHO = Reconciling("Sessions", Key("shop", "s-1"))
OTHER = Reconciling("Sessions", Key("shop", "s-2"))
POD = ("Pod", "shop", "pod-")


def test_a_name_is_the_prefix_and_five_letters() -> None:
    name, used = MadeNames(Random(1)).make(WHO, POD)
    assert name.startswith("pod-")
    assert len(name) == len("pod-") + 5
    assert not used


def test_a_long_prefix_is_cut_so_that_the_name_stays_legal() -> None:
    name, _ = MadeNames().make(WHO, ("Pod", "shop", "p" * 80))
    assert len(name) == 63


def test_names_in_doubt_are_used_again_by_the_same_reconcile_only() -> None:
    names = MadeNames(Random(1))
    first, second = names.make(WHO, POD)[0], names.make(WHO, POD)[0]
    names.doubt(WHO, POD, first)
    names.doubt(WHO, POD, second)
    assert names.make(OTHER, POD)[1] is False
    assert names.make(WHO, ("Pod", "shop", "other-"))[1] is False
    assert names.make(WHO, POD) == (first, True)
    assert names.make(WHO, POD) == (second, True)
    assert names.make(WHO, POD)[1] is False


def test_a_name_that_was_seen_is_not_used_again() -> None:
    names = MadeNames(Random(1))
    name, _ = names.make(WHO, POD)
    names.doubt(WHO, POD, name)
    names.seen(WHO, name)
    assert names.make(WHO, POD)[1] is False


def test_a_reconcile_that_succeeded_leaves_nothing_behind() -> None:
    names = MadeNames(Random(1))
    names.doubt(WHO, POD, "pod-xxxxx")
    names.forget(WHO)
    assert names._doubtful == {}
    names.doubt(None, POD, "pod-yyyyy")
    assert names._doubtful == {}
