"""What all tests share."""

from __future__ import annotations

import os

import pytest

#: Settings of the person who runs the tests must not reach what is tested.
_FOREIGN = ("KUBECONFIG", "PD_WATCH_NAMESPACES", "PD_PROMETHEUS_URL", "PD_LOG_LEVEL", "PD_LOG_FORMAT", "PD_WEB_PORT")


@pytest.fixture(autouse=True, scope="session")
def _own_environment() -> None:
    """Tests see neither the person's cluster nor their settings of the operator."""
    for name in _FOREIGN:
        os.environ.pop(name, None)
