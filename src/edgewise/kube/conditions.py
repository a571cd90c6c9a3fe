"""Conditions: the form in which an object's status says what is true about it, and why."""

from __future__ import annotations

from typing import Literal

from edgewise.kube.objects import Record


class Condition(Record):
    type: str
    status: Literal["True", "False", "Unknown"]
    # The API server requires these, also when they are empty.
    reason: str
    message: str
    last_transition_time: str
    observed_generation: int = 0
