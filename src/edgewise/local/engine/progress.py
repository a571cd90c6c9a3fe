"""How long work on the engine tells what it is doing."""

from collections.abc import Callable

# Called with what is being worked on ("etcd 3.6.8") and how it stands
# ("compiling, 231 packages"). May be called often, and from other threads.
Progress = Callable[[str, str], None]


def silent(subject: str, state: str) -> None:
    """For callers that show nothing."""
