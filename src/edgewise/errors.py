"""The root of every error that Edgewise raises on purpose; below every layer."""

from __future__ import annotations


class ReadableError(Exception):
    """Its text is a sentence for whoever reads it, and can be shown as it is.

    The SDK, which imports nothing else of the house, has a root of its own.
    """
