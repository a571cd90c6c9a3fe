"""Sessions as the operator holds them: read when somebody needs them, and only then.

Every join brings the whole session three times: by the join itself, as the answer to the
status write, and by the echo of that. Reading two thousand clients each time would cost more
than everything else the operator does for a join.
"""

from __future__ import annotations

from functools import cached_property
from typing import ClassVar

import msgspec

from edgewise.api.sessions import Session, TemplateRef
from edgewise.kube.objects import Object, Record
from edgewise.kube.shallow import decoded


class _SpecHeader(Record):
    template_ref: TemplateRef | None = None
    clients: msgspec.Raw = msgspec.Raw(b"{}")


_headers = msgspec.json.Decoder(_SpecHeader)


class RawSession(Object, kw_only=True, dict=True, gc=True):
    """A Session whose spec and status are still text. One that somebody has written nonsense
    into does not keep the others from being listed."""

    KIND: ClassVar = Session.KIND

    spec: msgspec.Raw = msgspec.Raw(b"{}")
    status: msgspec.Raw = msgspec.Raw(b"{}")

    def __post_init__(self) -> None:
        # Else it would hold on to the whole list that it came with.
        self.spec, self.status = self.spec.copy(), self.status.copy()

    @cached_property
    def _header(self) -> _SpecHeader:
        return decoded(_headers, self.spec)

    @property
    def template(self) -> str:
        """The name of the template it follows; empty if it has none."""
        ref = self._header.template_ref
        return ref.name if ref is not None else ""

    @property
    def in_use(self) -> bool:
        """Whether there is any client."""
        return bytes(self._header.clients) != b"{}"
