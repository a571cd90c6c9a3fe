"""A mistake in a controller is told once, when its manager is made."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from edgewise.kube.client import Client
from edgewise.kube.config import Access
from edgewise.kube.kinds.core import ConfigMap, Pod
from edgewise.kube.objects import Key
from edgewise.runtime.controller import Controller
from edgewise.runtime.manager import Manager
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import owned


async def reconcile(self: Any, obj: Any) -> Requeue | None:
    return None


def not_async(self: Any, obj: Any) -> Requeue | None:
    return None


def made(of: Any = Controller[ConfigMap], **body: Any) -> type[Any]:
    """What a person writes as class C(…); types would keep the tests from being mistaken."""
    bases = (of.__origin__,) if hasattr(of, "__origin__") else (of,)
    body = {"reconcile": reconcile, "__orig_bases__": (of,), **body}
    return type("C", bases, {name: each for name, each in body.items() if each is not None})


MISTAKES: list[tuple[Any, str]] = [
    (made(), "give the manager an instance, C(), not the class C"),
    (5, "5 is not a Controller"),
    (made(Controller)(), "say which kind C is for: class C(Controller[…])"),
    (
        made(Controller[int])(),  # type: ignore[type-var]
        "C is for int, which is no kind of object: "
        "name a subclass of Object that has a KIND, such as Controller[Pod]",
    ),
    (
        made(watches=(Pod,))(),
        "watches of C names Pod without saying whom it wakes: "
        "write owned(Pod), mapped(Pod, by=…) or read(Pod)",
    ),
    (made(watches=owned(Pod))(), "watches of C is not a tuple: write watches = (owned(…),)"),
    (
        made(watches=(owned(int),))(),  # type: ignore[arg-type]
        "C watches int, which is no kind of object: "
        "name a subclass of Object that has a KIND, such as owned(Pod)",
    ),
    (
        made(reconcile=None)(),
        "C does not define reconcile: write async def reconcile(self, obj) in it",
    ),
    (
        made(reconcile=not_async)(),
        "reconcile of C is not async: write async def reconcile(self, obj)",
    ),
    (
        made(finalizer="example.com/x")(),
        "C does not define finalize and has a finalizer: write async def finalize(self, obj) in it",
    ),
    (
        made(finalizer="example.com/x", finalize=not_async)(),
        "finalize of C is not async: write async def finalize(self, obj)",
    ),
]


def manager_of(controller: Any) -> Manager:
    return Manager(Client(Access(server="http://127.0.0.1:1")), [controller])


@pytest.mark.parametrize(("controller", "sentence"), MISTAKES, ids=[each for _, each in MISTAKES])
async def test_a_mistake_is_told_in_one_sentence(controller: Any, sentence: str) -> None:
    with pytest.raises(TypeError) as caught:
        manager_of(controller)
    assert str(caught.value) == sentence


def logged(function: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(function)
    def call(*args: Any) -> Any:
        return function(*args)

    return call


async def reconcile_key(self: Any, key: Key) -> Requeue | None:
    return None


@pytest.mark.parametrize(
    "controller",
    [
        made()(),
        made(watches=[owned(Pod)])(),
        made(reconcile=logged(reconcile))(),
        made(reconcile=None, reconcile_key=reconcile_key)(),
        made(finalizer="example.com/x", finalize=reconcile)(),
    ],
    ids=["plain", "list", "decorated", "by-name", "finalizer"],
)
async def test_what_works_is_no_mistake(controller: Any) -> None:
    assert len(manager_of(controller).workers) == 1
