"""Names of slices that are made for claims."""

from __future__ import annotations

import base64
import hashlib

from edgewise.api.tenancy_slices import SliceClaim

_HASH_CHARACTERS = 10


def slice_name(claim: SliceClaim) -> str:
    """The same one always, and that of no other claim, also not of a later one of its name."""
    meta = claim.metadata
    parts = (meta.namespace, meta.name, meta.uid)
    text = "".join(f"{len(part)}:{part}" for part in parts)
    digest = base64.b32encode(hashlib.sha256(text.encode()).digest()).decode().lower()
    return f"{meta.name}-{digest[:_HASH_CHARACTERS]}"
