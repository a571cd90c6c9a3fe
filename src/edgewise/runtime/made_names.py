"""Names for objects that are made with `generate_name`, so that none is made twice.

Where the API server makes up the name, a create without an answer cannot be repeated: it
might have been carried out, or might still be. So names are made here, and the name of a
create that is in doubt is used again by the next attempt of the same reconcile.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from edgewise.runtime.reconciling import Reconciling

# As the API server does it: no vowels, so no words, and nothing that looks alike.
_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
_SUFFIX = 5
_LONGEST = 63


class MadeNames:
    def __init__(self, random: Random | None = None) -> None:
        self._choice: Callable[[str], str] = (random or Random()).choice
        # For each reconcile, and each kind and prefix there: the names that are in doubt.
        self._doubtful: dict[Reconciling, dict[tuple[str, ...], list[str]]] = {}

    def make(self, reconciling: Reconciling | None, what: tuple[str, ...]) -> tuple[str, bool]:
        """A name for `what` (whose last part is the prefix), and whether it was used before."""
        doubtful = self._doubtful.get(reconciling, {}).get(what) if reconciling else None
        if doubtful:
            return doubtful.pop(0), True
        suffix = "".join(self._choice(_LETTERS) for _ in range(_SUFFIX))
        return what[-1][: _LONGEST - _SUFFIX] + suffix, False

    def doubt(self, reconciling: Reconciling | None, what: tuple[str, ...], name: str) -> None:
        """Nobody knows whether this one was made."""
        if reconciling is not None:
            self._doubtful.setdefault(reconciling, {}).setdefault(what, []).append(name)

    def seen(self, reconciling: Reconciling, name: str) -> None:
        """It was made, and the reconcile will see it: not to be used again."""
        for names in self._doubtful.get(reconciling, {}).values():
            if name in names:
                names.remove(name)

    def forget(self, reconciling: Reconciling) -> None:
        """The reconcile has succeeded; nothing of it is in doubt any more."""
        self._doubtful.pop(reconciling, None)
