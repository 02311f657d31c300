"""The operator as a process from the checkout, with the identity and the rights that the chart gives it."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

import yaml

from e2e.lab import kubeconfig as kubeconfigs
from e2e.lab import processes
from e2e.lab.lab import Lab
from e2e.rest import Object, Rest

REPOSITORY: Final = Path(__file__).resolve().parents[1]
CRD: Final = REPOSITORY / "crds" / "pdinference.dev_pdinferenceservices.yaml"
NAMESPACE: Final = "pd-system"
ACCOUNT: Final = "pd-operator"
USER: Final = f"system:serviceaccount:{NAMESPACE}:{ACCOUNT}"

#: Flow schemas through which the API server counts the operator's requests: see `RequestCount`.
READS: Final = "pd-operator-reads"
WRITES: Final = "pd-operator-writes"
#: Questions about permissions at start-up, which are creations in form only.
QUESTIONS: Final = "pd-operator-questions"

_POLL_SECONDS: Final = 0.05
_OK: Final = 200
_TICKS_PER_SECOND: Final = os.sysconf("SC_CLK_TCK")
_DISPATCHED: Final = re.compile(
    r'^apiserver_flowcontrol_dispatched_requests_total\{[^}]*flow_schema="([^"]+)"[^}]*\} ([0-9.e+]+)$', re.MULTILINE
)


@dataclass(frozen=True, slots=True)
class RequestCount:
    """Requests of the operator as the API server itself counted them, by the flow schema that they matched.

    Priority and fairness sorts every request by user and verb before it is served, and counts what it let through;
    so neither the operator's own books nor an audit log is needed. A watch counts once, when it begins.
    """

    reads: int
    writes: int

    def __sub__(self, earlier: RequestCount) -> RequestCount:
        return RequestCount(self.reads - earlier.reads, self.writes - earlier.writes)

    @property
    def total(self) -> int:
        return self.reads + self.writes

    @staticmethod
    def now(rest: Rest) -> RequestCount:
        """The count up to now, since the API server started."""
        found: dict[str, float] = {}
        for schema, value in _DISPATCHED.findall(rest.text("/metrics")):
            found[schema] = found.get(schema, 0.0) + float(value)
        reads = found.get(READS, 0) + found.get(QUESTIONS, 0)
        return RequestCount(reads=int(reads), writes=int(found.get(WRITES, 0)))


def install_crd(rest: Rest, *, within: float = 30.0) -> None:
    """The CRD of this checkout, served when this returns.

    Raises:
        AssertionError: The API server does not serve it in time; the message tells its conditions.
    """
    definition: Object = yaml.safe_load(CRD.read_text(encoding="utf-8"))
    rest.apply(definition, manager="pd-lab", force=True)
    name, deadline = definition["metadata"]["name"], time.monotonic() + within
    while True:
        # a CRD that was just created has `conditions: null`
        conditions = rest.get("CustomResourceDefinition", name)["status"].get("conditions") or []
        if any(item["type"] == "Established" and item["status"] == "True" for item in conditions):
            return
        assert time.monotonic() < deadline, f"{name} is not Established after {within:.0f} s: {conditions}"
        time.sleep(_POLL_SECONDS)


def install_identity(
    lab: Lab, rest: Rest, helm: Path, *, account: str = ACCOUNT, namespaces: Sequence[str] = ()
) -> Path:
    """The chart's ServiceAccount and roles, a counter of its requests, and a kubeconfig with its token.

    With `namespaces`, the roles are those of the namespaced mode, nothing cluster-wide; it needs an `account` of its
    own. Only requests of the account `ACCOUNT` are counted.
    """
    if rest.find("Namespace", NAMESPACE) is None:
        rest.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    for item in chart_rbac(helm, account, namespaces):
        rest.apply(item, manager="pd-lab", force=True)
    for schema in flow_schemas():
        rest.apply(schema, manager="pd-lab", force=True)
    token = rest.token(account, NAMESPACE)
    access = kubeconfigs.read(lab.kubeconfig)
    spec = lab.state().spec
    target = lab.directory / f"{account}.kubeconfig"
    content = kubeconfigs.render(
        spec.context, account, f"https://{access.host}:{access.port}", access.authority.encode("ascii"), token
    )
    target.touch(mode=0o600)
    target.write_bytes(content)
    return target


def chart_rbac(helm: Path, release: str, namespaces: Sequence[str] = ()) -> list[Object]:
    """The chart's ServiceAccount, roles and bindings, which have the name of the release."""
    watched = ["--set", f"watch.namespaces={{{','.join(namespaces)}}}"] if namespaces else []
    command = [str(helm), "template", release, str(REPOSITORY / "helm" / "pd-operator"), "--namespace", NAMESPACE]
    shown = ["--show-only", "templates/rbac.yaml", "--show-only", "templates/serviceaccount.yaml"]
    done = subprocess.run([*command, *watched, *shown], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"helm cannot render the chart: {done.stderr.strip()}")
    return [item for item in yaml.safe_load_all(done.stdout) if item]


def flow_schemas() -> list[Object]:
    """Flow schemas that match the operator only, so that the API server counts its reads and writes apart."""
    questions = _rule(["create"], groups=["authorization.k8s.io"])
    reads, writes = _rule(["get", "list", "watch"]), _rule(["create", "update", "patch", "delete", "deletecollection"])
    return [_flow_schema(QUESTIONS, 400, questions), _flow_schema(READS, 500, reads), _flow_schema(WRITES, 500, writes)]


def _rule(verbs: list[str], groups: Sequence[str] = ("*",)) -> Object:
    everything = {"verbs": verbs, "apiGroups": list(groups), "resources": ["*"], "clusterScope": True}
    return {
        "subjects": [{"kind": "ServiceAccount", "serviceAccount": {"namespace": NAMESPACE, "name": ACCOUNT}}],
        "resourceRules": [{**everything, "namespaces": ["*"]}],
        "nonResourceRules": [{"verbs": verbs, "nonResourceURLs": ["*"]}] if "*" in groups else [],
    }


def _flow_schema(name: str, precedence: int, rule: Object) -> Object:
    return {
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1",
        "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {
            # where requests of service accounts go anyway, so that counting changes nothing about priority
            "priorityLevelConfiguration": {"name": "workload-low"},
            "matchingPrecedence": precedence,
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [rule],
        },
    }


@dataclass(slots=True)
class OperatorProcess:
    """One operator process. It carries the lab's mark, so that `lab down` ends it, whatever became of its parent.

    Attributes:
        lab: Folder of the lab it works on.
        kubeconfig: Its identity.
        log: Where it writes; appended to when it starts again.
        settings: Further environment variables.
    """

    lab: Path
    kubeconfig: Path
    log: Path
    settings: Mapping[str, str] = field(default_factory=dict)
    port: int = 0
    _process: subprocess.Popen[bytes] | None = None

    def start(self, *, within: float = 60.0) -> float:
        """Start it and wait until it is ready; returns the seconds from its first answer to being ready.

        What comes before the first answer is Python's start, which tells more about the machine than about us.

        Raises:
            AssertionError: It ended, or was not ready in time; the message holds the end of its log.
        """
        assert self._process is None, "the operator runs already"
        self.port = _free_port()
        environment = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY / "operator"),
            "PYTHONUNBUFFERED": "1",
            "KUBECONFIG": str(self.kubeconfig),
            "PD_WEB_PORT": str(self.port),
            "PD_LOG_FORMAT": "text",
            processes.LAB_VARIABLE: str(self.lab),
            processes.COMPONENT_VARIABLE: "operator",
            **self.settings,
        }
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with open(self.log, "ab") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pd_operator.main"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env=environment,
                start_new_session=True,
            )
        begun = time.monotonic()
        answering: float | None = None
        while (status := self._readiness()) != _OK:
            now = time.monotonic()
            if answering is None and status is not None:
                answering = now
            assert self._process.poll() is None, f"the operator ended ({self._process.returncode}){self.tail()}"
            assert now - begun < within, f"the operator was not ready after {within:.0f} s{self.tail()}"
            time.sleep(_POLL_SECONDS)
        return 0.0 if answering is None else time.monotonic() - answering

    def stop(self, number: signal.Signals = signal.SIGTERM, *, within: float = 20.0) -> float:
        """Signal it and wait for its end; returns the seconds that took. No error when it does not run."""
        process, self._process = self._process, None
        if process is None:
            return 0.0
        begun = time.monotonic()
        process.send_signal(number)
        try:
            process.wait(within)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"the operator did not end within {within:.0f} s of {number.name}") from None
        return time.monotonic() - begun

    def kill(self) -> None:
        """End it without any notice, as a crash of its node would."""
        self.stop(signal.SIGKILL)

    @property
    def running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def _readiness(self) -> int | None:
        """HTTP status that its readiness probe would get; None while it does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=2) as answer:
                return int(answer.status)
        except urllib.error.HTTPError as error:
            return error.code
        except OSError:
            return None

    def metrics(self) -> str:
        """Its `/metrics` page."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/metrics", timeout=10) as answer:
            return bytes(answer.read()).decode("utf-8")

    def cpu_seconds(self) -> float:
        """Processor time used since it started, in user and system mode; see proc(5)."""
        user, system = self._stat()[11:13]
        return (int(user) + int(system)) / _TICKS_PER_SECOND

    def peak_rss_mib(self) -> float:
        """Most memory that was resident at once."""
        status = Path(f"/proc/{self._pid()}/status").read_text(encoding="ascii")
        found = re.search(r"^VmHWM:\s+([0-9]+) kB$", status, re.MULTILINE)
        assert found is not None, "the kernel tells no peak of resident memory"
        return int(found[1]) / 1024

    def tail(self, lines: int = 40) -> str:
        """The end of its log, as a continuation of a message."""
        return processes.tail(self.log, lines)

    def _pid(self) -> int:
        assert self._process is not None, "the operator does not run"
        return self._process.pid

    def _stat(self) -> list[str]:
        return Path(f"/proc/{self._pid()}/stat").read_text(encoding="ascii").rpartition(")")[2].split()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
