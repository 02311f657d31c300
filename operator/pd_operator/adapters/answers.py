"""From an error answer of the API server to the error class that says who has to act."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pd_operator.reconcile.errors import (
    AbsentError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    TerminalError,
    TransientError,
)

#: What may be repeated at once: nothing was changed, or changing it again is the same.
_BUSY: Final = frozenset({429, 500, 502, 503, 504})


def failure_of(status: int, data: bytes, headers: Mapping[str, str]) -> ClusterError:
    """The error for an answer with HTTP status 400 or above."""
    details = _status_object(data)
    message = str(details.get("message") or data[:300].decode(errors="replace") or f"HTTP {status}")
    if status in _BUSY:
        return TransientError(message, retry_after=_retry_after(headers, details), repeatable=True)
    if status == 404 or (status == 403 and _namespace_is_ending(details)):
        return AbsentError(message)
    if status == 409:
        return ConflictError(message)
    if status == 403:
        return ForbiddenError(message) if _lacks_permission(message) else TerminalError(message)
    if status in (401, 408, 410):
        # Credentials are renewed before the next request; an expired list is taken anew.
        return TransientError(message)
    return TerminalError(message)


def _status_object(data: bytes) -> Mapping[str, Any]:
    try:
        details = json.loads(data)
    except ValueError:
        return {}
    return details if isinstance(details, dict) else {}


def _retry_after(headers: Mapping[str, str], details: Mapping[str, Any]) -> float | None:
    text = headers.get("Retry-After") or (details.get("details") or {}).get("retryAfterSeconds")
    try:
        return float(text) if text else None
    except (TypeError, ValueError):
        return None


def _namespace_is_ending(details: Mapping[str, Any]) -> bool:
    causes = (details.get("details") or {}).get("causes") or ()
    return any(cause.get("reason") == "NamespaceTerminating" for cause in causes)


def _lacks_permission(message: str) -> bool:
    """Authorization says `User "x" cannot patch resource "y"`; admission (quota, policy) says anything else."""
    return 'User "' in message and " cannot " in message
