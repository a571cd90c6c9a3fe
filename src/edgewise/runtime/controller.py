"""A controller: says what it watches, and makes one object at a time as it should be.

    class SessionController(Controller[Session]):
        watches = (owned(Pod), mapped(SessionTemplate, by=sessions_of_template))

        async def reconcile(self, session: Session) -> Requeue | None:
            seen = observe(session, self.cache)
            decision = plan(seen, now=self.clock())
            await carry_out(decision, self.api)
            return Requeue.at(decision.next_deadline)

It is told a name, never an event: whatever happened, and however often, a reconcile looks
at how things are and brings them closer to how they should be.
"""

from __future__ import annotations

import inspect
import logging
import time
from collections.abc import Callable
from random import Random
from typing import Any, ClassVar, Generic, TypeVar, get_args, get_origin

from edgewise.kube.objects import Key, Object
from edgewise.runtime.api import Api
from edgewise.runtime.backoff import Backoff
from edgewise.runtime.caching.selection import EVERYTHING, Selection
from edgewise.runtime.events import EventRecorder
from edgewise.runtime.requeue import Requeue
from edgewise.runtime.watches import CacheView, Watch

T = TypeVar("T", bound=Object)


class Controller(Generic[T]):
    """Subclass it with the kind it cares for, and write `reconcile`."""

    # Declared by the subclass -------------------------------------------------------
    watches: tuple[Watch, ...] = ()
    selection: Selection = EVERYTHING
    workers: ClassVar[int] = 8
    # With a name here, `finalize` is called before an object goes, and holds it until then.
    finalizer: ClassVar[str] = ""
    # Whether a change that touches nothing but the status is worth a reconcile.
    wakes_on_status: ClassVar[bool] = True
    # A reconcile that takes longer is ended, and tried again.
    timeout: ClassVar[float] = 120.0
    backoff: ClassVar[Backoff] = Backoff()

    kind: ClassVar[type[Object]]  # taken from Controller[T]

    # Given by the manager -----------------------------------------------------------
    cache: CacheView
    api: Api
    events: EventRecorder
    clock: Callable[[], float] = staticmethod(time.time)
    random: Random
    log: logging.Logger
    # Puts a key into the queue of this controller, as a change of its object would.
    wake: Callable[[Key], None]

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for base in getattr(cls, "__orig_bases__", ()):
            if get_origin(base) is not None and issubclass(get_origin(base), Controller):
                (kind,) = get_args(base)
                if not isinstance(kind, TypeVar):
                    cls.kind = kind

    @property
    def name(self) -> str:
        """For log lines and metrics."""
        return type(self).__name__

    def start(self, cache: CacheView) -> None:
        """Called once, when all of the above is given and before any cache has an object: the
        place to follow the caches with indexes of one's own."""

    async def reconcile(self, obj: T) -> Requeue | None:
        """Bring the world closer to what `obj` says. `obj` is shared: never change it."""
        raise NotImplementedError

    async def finalize(self, obj: T) -> Requeue | None:
        """Clean up before `obj` goes. None: done; a Requeue: not yet, look again then."""
        raise NotImplementedError(f"{self.name} has a finalizer, but no `finalize`")

    async def gone(self, key: Key) -> None:
        """The object is not there (any more). Most controllers need nothing here."""

    async def reconcile_key(self, key: Key) -> Requeue | None:
        """One pass over one key. Override it only to work from the bare name."""
        obj: T | None = self.cache[self.kind].get(key)  # type: ignore[assignment]
        if obj is None:
            await self.gone(key)
            return None
        if not self.finalizer:
            return await self.reconcile(obj)
        if not obj.metadata.deleting:
            obj = await self.api.add_finalizer(obj, self.finalizer)
            return await self.reconcile(obj)
        if self.finalizer not in obj.metadata.finalizers:
            return None
        answer = await self.finalize(obj)
        if answer is None:
            await self.api.remove_finalizer(obj, self.finalizer)
        return answer


def check_controller(controller: Any) -> None:
    """Raise TypeError, in one sentence, for what would otherwise fail at every reconcile."""
    if isinstance(controller, type):
        name = controller.__name__
        raise TypeError(f"give the manager an instance, {name}(), not the class {name}")
    if not isinstance(controller, Controller):
        raise TypeError(f"{controller!r} is not a Controller")
    name = controller.name
    kind: Any = getattr(controller, "kind", None)
    if kind is None:
        raise TypeError(f"say which kind {name} is for: class {name}(Controller[…])")
    if not _is_kind(kind):
        raise TypeError(
            f"{name} is for {_called(kind)}, which is no kind of object: "
            "name a subclass of Object that has a KIND, such as Controller[Pod]"
        )
    _check_watches(name, controller.watches)
    # Who works from the bare name decides what else is called.
    if type(controller).reconcile_key is Controller.reconcile_key:
        _check_method(controller, "reconcile")
        if controller.finalizer:
            _check_method(controller, "finalize")


def _check_watches(name: str, watches: Any) -> None:
    if not isinstance(watches, tuple | list):
        raise TypeError(f"watches of {name} is not a tuple: write watches = (owned(…),)")
    for watch in watches:
        if not isinstance(watch, Watch):
            what = _called(watch)
            raise TypeError(
                f"watches of {name} names {what} without saying whom it wakes: "
                f"write owned({what}), mapped({what}, by=…) or read({what})"
            )
        if not _is_kind(watch.kind):
            raise TypeError(
                f"{name} watches {_called(watch.kind)}, which is no kind of object: "
                "name a subclass of Object that has a KIND, such as owned(Pod)"
            )


def _check_method(controller: Controller[Any], method: str) -> None:
    name, written = controller.name, getattr(controller, method)
    if getattr(type(controller), method) is getattr(Controller, method):
        why = "" if method == "reconcile" else " and has a finalizer"
        raise TypeError(
            f"{name} does not define {method}{why}: write async def {method}(self, obj) in it"
        )
    # What is no plain function, such as a mock, may well answer something to wait for.
    if inspect.ismethod(written) and not inspect.iscoroutinefunction(inspect.unwrap(written)):
        raise TypeError(f"{method} of {name} is not async: write async def {method}(self, obj)")


def _is_kind(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Object) and hasattr(kind, "KIND")


def _called(thing: Any) -> str:
    return thing.__name__ if isinstance(thing, type) else repr(thing)
