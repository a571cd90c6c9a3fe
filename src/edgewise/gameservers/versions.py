"""Which version a server is of: a hash of what its author wrote.

Defaults are left out, and so is what Edgewise adds, so an upgrade of Edgewise makes no new
version. What changes how a running server is treated, and not what runs, makes none either.
"""

from __future__ import annotations

import msgspec

from edgewise.api.games import Operation, ServerSpec, Sidecar
from edgewise.workloads.names import short_hash

LENGTH = 8


def version_of(spec: ServerSpec) -> str:
    written = msgspec.structs.replace(
        spec, sidecar=Sidecar(), operation=Operation.NONE, deletion_priority=0
    )
    content = msgspec.json.encode(msgspec.to_builtins(written), order="sorted")
    return short_hash(content.decode(), length=LENGTH)
