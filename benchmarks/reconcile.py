"""How fast and how cheaply the operator creates N services: `python -m benchmarks.reconcile [--n 1,50,200,1000]`.

Each N starts from nothing: a new control plane with fake GPU nodes (kwok makes pods Ready at once), a new operator
process beside it with the rights that the chart gives, and N services of one prefill and three decode replicas each.
Times count from the first create call. Nothing is averaged: run it again on a quiet machine for a better number.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from benchmarks import histogram, table
from e2e.lab import binaries
from e2e.lab.fake_nodes import GPUS_PER_NODE
from e2e.lab.lab import BUILD, Lab, Size
from e2e.lab.progress import Progress
from e2e.lab.spec import Profile
from e2e.operator_process import OperatorProcess, RequestCount, install_crd, install_identity
from e2e.rest import Object, Rest
from pd_operator.api import labels

OUTPUT: Final = BUILD / "bench" / "reconcile.json"
NAMESPACE: Final = "bench"

PREFILL: Final = 1
DECODE: Final = 3
PODS_PER_SERVICE: Final = PREFILL + DECODE + 1  # and the router
#: Children of one service. The API server's own ServiceAccount `default` comes on top.
CHILDREN: Final = {
    "StatefulSet": 2,
    "Service": 3,
    "Deployment": 1,
    "ServiceAccount": 1,
    "Role": 1,
    "RoleBinding": 1,
    "PodDisruptionBudget": 2,
}
BESIDES: Final = {"ServiceAccount": 1}

CREATORS: Final = 4
POLL_SECONDS: Final = 0.1
QUIET_SECONDS: Final = 3.0
QUIET_WITHIN_SECONDS: Final = 120.0
CROWDING_CPU_SECONDS: Final = 0.3
CROWDED: Final = 1.2


@dataclass(frozen=True, slots=True)
class Result:
    """One N. Seconds count from the first create call.

    Attributes:
        n: Services.
        children_s, pods_s, pods_ready_s, ready_s: Until every child object exists, every pod exists, every pod is
            Ready, every service says that it is Ready.
        cpu_s, rss_mib: Of the operator: processor seconds until then, most memory.
        requests_per_service: All requests of the operator until it was quiet again, as the API server counted them,
            those of its start-up left out.
        idle_cpu_percent: Of one core, with everything in place and nothing happening.
        restart_writes: Writes that a restart of the operator made, as the API server counted them.
        restart_quiet_s: From the start of that process until its last request.
        reconcile_p50_s, reconcile_p99_s: Of one run of the loop, from the operator's histogram.
        api_calls: Requests in the operator's own books, without watches.
    """

    n: int
    children_s: float
    pods_s: float
    pods_ready_s: float
    ready_s: float
    cpu_s: float
    rss_mib: float
    requests_per_service: float
    idle_cpu_percent: float
    restart_writes: int
    restart_quiet_s: float
    reconcile_p50_s: float
    reconcile_p99_s: float
    api_calls: int


class Arrivals:
    """Counts objects of a kind that have become something, by a watch in a thread of its own."""

    def __init__(self, rest: Rest, kind: str, within: float, *, arrived: Callable[[Object], bool]) -> None:
        self._rest, self._kind, self._within, self._arrived = rest, kind, within, arrived
        self._names: set[str] = set()
        self._seen: set[str] = set()
        self._changed = threading.Condition()
        threading.Thread(target=self._follow, daemon=True).start()

    def wait_seen(self, wanted: int, deadline: float) -> float:
        """Wait until `wanted` objects exist; returns when that was."""
        return self._wait(self._seen, wanted, deadline, "exist")

    def wait_arrived(self, wanted: int, deadline: float) -> float:
        """Wait until `wanted` objects have become it; returns when that was."""
        return self._wait(self._names, wanted, deadline, "are ready")

    def _wait(self, names: set[str], wanted: int, deadline: float, what: str) -> float:
        with self._changed:
            reached = self._changed.wait_for(lambda: len(names) >= wanted, deadline - time.monotonic())
            if not reached:
                raise TimeoutError(f"{len(names)} of {wanted} objects of kind {self._kind} {what}")
            return time.monotonic()

    def _follow(self) -> None:
        for event, item in self._rest.watch(self._kind, NAMESPACE, self._within):
            name = item["metadata"]["name"]
            with self._changed:
                if event == "DELETED":
                    self._seen.discard(name)
                    self._names.discard(name)
                else:
                    self._seen.add(name)
                    (self._names.add if self._arrived(item) else self._names.discard)(name)
                self._changed.notify_all()


def is_ready(item: Object) -> bool:
    """Whether a pod or a service says that it is Ready, for its present generation."""
    status = item.get("status", {})
    current = status.get("observedGeneration", item["metadata"].get("generation")) == item["metadata"].get("generation")
    return current and any(c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or [])


def service(index: int) -> Object:
    """One service of the bench."""
    return {
        "apiVersion": labels.API_VERSION,
        "kind": labels.KIND,
        "metadata": {"name": f"bench-{index:04d}", "namespace": NAMESPACE},
        "spec": {
            "model": {"name": "meta-llama/Llama-3.1-8B-Instruct"},
            "prefill": {"replicas": PREFILL},
            "decode": {"replicas": DECODE},
        },
    }


def measure(n: int, lab: Lab, helm: Path, *, idle_seconds: float, within: float) -> Result:
    """Everything about one N, on a lab that is made for it and removed afterwards."""
    lab.down(wipe=True)
    nodes = math.ceil((PREFILL + DECODE) * n / GPUS_PER_NODE) + 2
    lab.up(Size(Profile.CONTROL_PLANE, nodes=0, gpu_nodes=nodes))
    try:
        rest = Rest(lab.kubeconfig)
        install_crd(rest)
        rest.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
        operator = OperatorProcess(
            lab=lab.directory,
            kubeconfig=install_identity(lab, rest, helm),
            log=lab.directory / "logs" / "operator.log",
            settings={"PD_LOG_LEVEL": "warning"},
        )
        operator.start()
        try:
            return _measure(n, rest, operator, idle_seconds=idle_seconds, within=within)
        finally:
            operator.kill()
    finally:
        lab.down(wipe=True)


def _measure(n: int, rest: Rest, operator: OperatorProcess, *, idle_seconds: float, within: float) -> Result:
    _wait_quiet(rest)
    before, cpu_before = RequestCount.now(rest), operator.cpu_seconds()
    pods = Arrivals(rest, "Pod", within, arrived=is_ready)
    services = Arrivals(rest, labels.KIND, within, arrived=is_ready)
    begun = time.monotonic()
    deadline = begun + within
    with ThreadPoolExecutor(CREATORS + 1) as pool:
        children = pool.submit(_wait_children, rest, n, deadline)
        list(pool.map(rest.create, [service(index) for index in range(n)]))
        pods_s = pods.wait_seen(n * PODS_PER_SERVICE, deadline) - begun
        pods_ready_s = pods.wait_arrived(n * PODS_PER_SERVICE, deadline) - begun
        ready_s = services.wait_arrived(n, deadline) - begun
        cpu_s = operator.cpu_seconds() - cpu_before
        children_s = children.result() - begun
    _wait_quiet(rest)
    requests = RequestCount.now(rest) - before
    page = operator.metrics()
    idle = _idle_cpu_percent(operator, idle_seconds)
    rss_mib = operator.peak_rss_mib()
    operator.stop()
    written = RequestCount.now(rest)
    restarted = time.monotonic()
    operator.start(within=60)
    quiet = _wait_quiet(rest)
    return Result(
        n=n,
        children_s=round(children_s, 2),
        pods_s=round(pods_s, 2),
        pods_ready_s=round(pods_ready_s, 2),
        ready_s=round(ready_s, 2),
        cpu_s=round(cpu_s, 2),
        rss_mib=round(rss_mib, 1),
        requests_per_service=round(requests.total / n, 1),
        idle_cpu_percent=round(idle, 2),
        restart_writes=(RequestCount.now(rest) - written).writes,
        restart_quiet_s=round(max(0.0, quiet - restarted), 1),
        reconcile_p50_s=round(histogram.quantile(page, "pd_operator_reconcile_duration_seconds", 0.50), 4),
        reconcile_p99_s=round(histogram.quantile(page, "pd_operator_reconcile_duration_seconds", 0.99), 4),
        api_calls=int(histogram.total(page, "pd_operator_api_requests_total")),
    )


def _wait_children(rest: Rest, n: int, deadline: float) -> float:
    """Wait until every child exists, asking for one kind at a time; returns when that was."""
    for kind, each in CHILDREN.items():
        wanted = n * each + BESIDES.get(kind, 0)
        while (present := rest.count(kind, NAMESPACE)) < wanted:
            if time.monotonic() > deadline:
                raise TimeoutError(f"{present} of {wanted} objects of kind {kind} exist")
            time.sleep(POLL_SECONDS)
    return time.monotonic()


def _wait_quiet(rest: Rest) -> float:
    """Wait until the operator has made no request for a while; returns when it made the last."""
    last, since = RequestCount.now(rest), time.monotonic()
    deadline = since + QUIET_WITHIN_SECONDS
    while time.monotonic() - since < QUIET_SECONDS:
        if time.monotonic() > deadline:
            raise TimeoutError(f"the operator is not quiet after {QUIET_WITHIN_SECONDS:.0f} s")
        time.sleep(POLL_SECONDS)
        now = RequestCount.now(rest)
        if now != last:
            last, since = now, time.monotonic()
    return since


def _idle_cpu_percent(operator: OperatorProcess, seconds: float) -> float:
    cpu, begun = operator.cpu_seconds(), time.monotonic()
    time.sleep(seconds)
    return 100 * (operator.cpu_seconds() - cpu) / (time.monotonic() - begun)


def crowding() -> float:
    """How much longer a piece of work takes by the clock than by the processor: 1.0 on a machine of one's own."""
    clock, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < CROWDING_CPU_SECONDS:
        sum(range(1000))
    return (time.monotonic() - clock) / (time.process_time() - cpu)


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, write the JSON after every N, and print the table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reconcile", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--n", default="1,50,200,1000", help="numbers of services, separated by commas")
    parser.add_argument("--lab", default="bench-reconcile", help="name of the lab that is made and removed")
    parser.add_argument("--idle-seconds", type=float, default=30.0, help="how long idling is watched")
    parser.add_argument("--within", type=float, default=900.0, help="most seconds for one N to get Ready")
    parser.add_argument("--output", type=Path, default=OUTPUT, help="where the JSON goes")
    options = parser.parse_args(arguments)
    progress = Progress()
    helm = binaries.ensure(("helm",), progress)["helm"]
    results: list[dict[str, Any]] = []
    for n in (int(part) for part in options.n.split(",")):
        if (busy := crowding()) > CROWDED:
            progress.say(f"this machine is busy: work takes {busy:.1f} times as long as it should, and so will this")
        found = measure(
            n, Lab.named(options.lab, progress), helm, idle_seconds=options.idle_seconds, within=options.within
        )
        results.append(asdict(found))
        options.output.parent.mkdir(parents=True, exist_ok=True)
        options.output.write_text(json.dumps(results, indent=2) + "\n", encoding="utf-8")
    print(table.render(results))
    print(f"\nwritten to {options.output}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
