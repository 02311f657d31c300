"""Storages by which kopf remembers nothing.

kopf copies every object several times to find out what changed, even when no handler asks for it: nine tenths of the
cost of an event. These two answer at once. They also make sure that kopf writes nothing on any object.
"""

from __future__ import annotations

from typing import Any

import kopf


class NoDiffBase(kopf.DiffBaseStorage):
    """No object has anything that could change."""

    def build(self, **_: Any) -> Any:
        """The essence of every object is empty."""
        return {}

    def fetch(self, **_: Any) -> Any:
        """Nothing was stored."""
        return None

    def store(self, **_: Any) -> None:
        """Never called: only handlers of changes lead here."""
        raise AssertionError("kopf is an event source here and must not write")


class NoProgress(kopf.ProgressStorage):
    """No handler has progress."""

    def fetch(self, **_: Any) -> Any:
        """Nothing was stored."""
        return None

    def store(self, **_: Any) -> None:
        """Never called: only handlers of changes lead here."""
        raise AssertionError("kopf is an event source here and must not write")

    def purge(self, **_: Any) -> None:
        """There is nothing to purge."""

    def touch(self, **_: Any) -> None:
        """There is nothing to touch."""

    def clear(self, *, essence: Any) -> Any:
        """There is nothing of kopf's own to take out."""
        return essence
