"""Which error an answer of the API server becomes: it decides who has to act."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pd_operator.adapters.answers import failure_of
from pd_operator.reconcile.errors import (
    AbsentError,
    ClusterError,
    ConflictError,
    ForbiddenError,
    TerminalError,
    TransientError,
)


def answer(message: str, **details: Any) -> bytes:
    return json.dumps({"kind": "Status", "status": "Failure", "message": message, "details": details}).encode()


CASES = [
    pytest.param(422, answer("StatefulSet.apps x is invalid: spec.replicas"), TerminalError, id="invalid"),
    pytest.param(400, answer("strict decoding error"), TerminalError, id="malformed"),
    pytest.param(
        403,
        answer('deployments.apps is forbidden: User "system:serviceaccount:a:b" cannot patch resource "deployments"'),
        ForbiddenError,
        id="missing permission",
    ),
    pytest.param(403, answer('pods "x" is forbidden: exceeded quota: gpus'), TerminalError, id="quota"),
    pytest.param(
        403,
        answer("namespace is being terminated", causes=[{"reason": "NamespaceTerminating"}]),
        AbsentError,
        id="namespace on its way out",
    ),
    pytest.param(404, answer('namespaces "x" not found'), AbsentError, id="absent"),
    pytest.param(409, answer("Apply failed with 1 conflict"), ConflictError, id="conflict"),
    pytest.param(401, answer("Unauthorized"), TransientError, id="expired credentials"),
    pytest.param(410, answer("the continue token has expired"), TransientError, id="expired list"),
    pytest.param(429, b"Too many requests", TransientError, id="too many requests, as plain text"),
    pytest.param(500, answer("failed calling webhook"), TransientError, id="webhook down"),
    pytest.param(503, b"<html>proxy</html>", TransientError, id="a proxy's page"),
]


@pytest.mark.parametrize(("status", "data", "expected"), CASES)
def test_classes(status: int, data: bytes, expected: type[ClusterError]) -> None:
    error = failure_of(status, data, {})
    assert type(error) is expected
    assert error.message


def test_messages_are_the_api_servers() -> None:
    assert failure_of(422, answer("spec.replicas: must be 0 or more"), {}).message == "spec.replicas: must be 0 or more"
    assert failure_of(500, b"", {}).message == "HTTP 500"
    assert failure_of(500, b"[1]", {}).message == "[1]"


@pytest.mark.parametrize(
    ("headers", "data", "seconds"),
    [
        ({"Retry-After": "7"}, b"", 7.0),
        ({}, answer("slow down", retryAfterSeconds=3), 3.0),
        ({"Retry-After": "Wed, 21 Oct 2026 07:28:00 GMT"}, b"", None),
        ({}, b"", None),
    ],
)
def test_the_wait_that_is_asked_for(headers: dict[str, str], data: bytes, seconds: float | None) -> None:
    error = failure_of(429, data, headers)
    assert isinstance(error, TransientError)
    assert error.retry_after == seconds
    assert error.repeatable
