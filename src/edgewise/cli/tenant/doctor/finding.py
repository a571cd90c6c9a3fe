"""What the doctor says of one thing."""

import msgspec


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    check: str
    good: bool
    found: str
    # A word for programs, such as NetworkNotEnforced.
    reason: str = ""
    advice: str = ""
