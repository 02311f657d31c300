"""A control plane of the tests' own, and the operator on it.

The lab has a name of its own (`PD_TEST_LAB`, default `cluster-test`), is brought up at the first test that needs it and
removed after the last; `PD_TEST_KEEP_LAB=1` keeps it, for the next run to start at once. No other cluster is ever
touched: the one context that is allowed is that lab's.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
import yaml

from e2e.kubectl import Kubectl
from e2e.lab import binaries
from e2e.lab.lab import Lab, Size
from e2e.lab.progress import Progress
from e2e.lab.spec import Profile
from e2e.operator_process import OperatorProcess, install_crd, install_identity
from e2e.rest import Rest
from tests.cluster.support import NAME, World, alone

KEEP: Final = os.environ.get("PD_TEST_KEEP_LAB") == "1"
#: 240 accelerators, and room for the pods of the test with 50 services.
GPU_NODES: Final = 30

_OPERATOR: Final = pytest.StashKey[OperatorProcess]()


@pytest.fixture(scope="session")
def lab() -> Iterator[Lab]:
    """A running control plane with fake GPU nodes."""
    lab = Lab.named(NAME)
    with alone(lab.directory.with_suffix(".session")):
        if not KEEP:
            lab.down(wipe=True)  # what an interrupted run left
        lab.up(Size(Profile.CONTROL_PLANE, nodes=0, gpu_nodes=GPU_NODES))
        context = yaml.safe_load(lab.kubeconfig.read_text(encoding="utf-8"))["current-context"]
        assert context == f"pd-lab-{NAME}", f"{lab.kubeconfig} points at {context}, not at the tests' own lab"
        yield lab
        if not KEEP:
            lab.down(wipe=True)


@pytest.fixture(scope="session")
def rest(lab: Lab) -> Rest:
    """The administrator's client, with the CRD of this checkout served."""
    rest = Rest(lab.kubeconfig)
    install_crd(rest)
    return rest


@pytest.fixture(scope="session")
def binary() -> Path:
    """The real kubectl."""
    return binaries.kubectl()


@pytest.fixture
def namespace(rest: Rest, request: pytest.FixtureRequest) -> Iterator[str]:
    """A namespace of the test's own, removed afterwards."""
    title = re.sub(r"[^a-z0-9]+", "-", request.node.originalname.removeprefix("test_").lower())[:40].strip("-")
    name = f"{title}-{secrets.token_hex(3)}"
    rest.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}})
    yield name
    rest.delete("Namespace", name)


@pytest.fixture
def kubectl(lab: Lab, rest: Rest, binary: Path, namespace: str) -> Kubectl:
    """kubectl in the test's namespace."""
    return Kubectl(binary, lab.kubeconfig, namespace)


@pytest.fixture(scope="session")
def helm() -> Path:
    """The real helm, which renders the rights that the operator gets."""
    return binaries.ensure(("helm",), Progress())["helm"]


@pytest.fixture(scope="session")
def _operator(lab: Lab, rest: Rest, helm: Path) -> Iterator[OperatorProcess]:
    process = OperatorProcess(
        lab=lab.directory,
        kubeconfig=install_identity(lab, rest, helm),
        log=lab.directory / "logs" / "operator.log",
    )
    process.log.unlink(missing_ok=True)
    yield process
    process.stop()


@pytest.fixture
def operator(_operator: OperatorProcess, request: pytest.FixtureRequest) -> OperatorProcess:
    """The operator of this checkout, running with the chart's rights; one process for all tests that leave it alone."""
    request.node.stash[_OPERATOR] = _operator
    if not _operator.running:
        _operator.kill()
        _operator.start()
    return _operator


@pytest.fixture
def world(rest: Rest, namespace: str, operator: OperatorProcess) -> World:
    """A namespace with an operator at work."""
    return World(rest, namespace)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Iterator[None]:  # the report passes through
    """Shows the end of the operator's log with every failure of a test that uses it."""
    report: pytest.TestReport = yield  # type: ignore[assignment]
    process = item.stash.get(_OPERATOR, None)
    if report.failed and process is not None:
        report.sections.append(("operator log", process.tail()))
    return report  # type: ignore[return-value]
