"""What can go wrong between the operator and the API server, by who has to act."""

from __future__ import annotations


class ClusterError(Exception):
    """A request to the API server failed.

    Attributes:
        message: The API server's own words, or what happened to the connection.
    """

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class TransientError(ClusterError):
    """It may work the next time (connection, conflict, overload, server error): back off and try again.

    Attributes:
        retry_after: Seconds that the server asked to wait, if it did.
        repeatable: The very same request may succeed; otherwise the plan should be made anew.
    """

    def __init__(self, message: str, *, retry_after: float | None = None, repeatable: bool = False) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        self.repeatable = repeatable


class ConflictError(TransientError):
    """Someone else owns a field that was to be set, or the object changed meanwhile."""


class TerminalError(ClusterError):
    """It will not work until a person changes something: an invalid object, an admission policy, a quota."""


class ForbiddenError(TerminalError):
    """The operator lacks a permission."""


class AbsentError(ClusterError):
    """The object, or its namespace, does not exist or is being removed."""
