"""The lab itself: pods on two real nodes, two labs side by side, and nothing left behind."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.parse
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest

from e2e.kubectl import Kubectl, wait_until
from e2e.lab import binaries, cgroups, images, processes
from e2e.lab.lab import Lab, Size
from e2e.lab.progress import Progress
from e2e.lab.spec import Profile, cgroup_prefix
from e2e.lab.status import observe

#: The first test builds the programs and the image where nobody has yet.
pytestmark = pytest.mark.timeout(1800)

NAMESPACE: Final = "web"
IMAGE: Final = "operator"  # the smallest of the project's images with a Python in it

#: Answers every path with one metric, so that the same page serves clients and Prometheus.
SERVER: Final = """\
import http.server, socket
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        body = f'web_up{{host="{socket.gethostname()}"}} 1\\n'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
print("serving", flush=True)
http.server.ThreadingHTTPServer(("", 8080), Page).serve_forever()
"""


@contextmanager
def running(name: str, size: Size) -> Iterator[Lab]:
    """A lab that is removed with all its data, also when bringing it up fails."""
    lab = Lab.named(name)
    try:
        lab.up(size)
        yield lab
    finally:
        lab.down(wipe=True)


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """A lab with two real nodes that have the image."""
    with running("lab-test", Size(Profile.FULL, nodes=2, gpu_nodes=2)) as lab:
        lab.load(images.ensure(IMAGE, Progress()).path)
        yield lab


@pytest.fixture(scope="module")
def kubectl(lab: Lab) -> Kubectl:
    """kubectl on the host, which reaches the lab through its gateway; two web pods run, one on each node."""
    kubectl = Kubectl(binaries.kubectl(), lab.kubeconfig, NAMESPACE)
    kubectl.apply(*web(images.ensure(IMAGE, Progress()).reference))
    kubectl.run("rollout", "status", "deployment/web", "--timeout=60s")
    return kubectl


def web(image: str) -> list[dict[str, Any]]:
    """A namespace that admits restricted pods only, a Deployment spread over the nodes, and its Service."""
    selector = {"app": "web"}
    container = {
        "name": "web",
        "image": image,
        "imagePullPolicy": "Never",
        "command": ["python3", "-c", SERVER],
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "readinessProbe": {"httpGet": {"path": "/", "port": 8080}, "periodSeconds": 1},
        # what a GPU user's pod asks for; the real nodes advertise it without having it
        "resources": {"limits": {"nvidia.com/gpu": "1", "rdma/hca": "1"}},
    }
    spread = {"maxSkew": 1, "topologyKey": "kubernetes.io/hostname", "whenUnsatisfiable": "DoNotSchedule"}
    pod = {
        "metadata": {"labels": selector, "annotations": {"prometheus.io/scrape": "true", "prometheus.io/port": "8080"}},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "securityContext": {
                "runAsNonRoot": True,
                "runAsUser": 65532,
                "seccompProfile": {"type": "RuntimeDefault"},
            },
            "topologySpreadConstraints": [{**spread, "labelSelector": {"matchLabels": selector}}],
            "containers": [container],
        },
    }
    enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
    return [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE, "labels": enforce}},
        {
            "apiVersion": "apps/v1",
            "kind": "Deployment",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"replicas": 2, "selector": {"matchLabels": selector}, "template": pod},
        },
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": {"name": "web", "namespace": NAMESPACE},
            "spec": {"selector": selector, "ports": [{"port": 80, "targetPort": 8080}]},
        },
    ]


FETCH: Final = "import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1], timeout=5).read().decode())"


def test_restricted_pods_run_on_both_nodes_and_never_on_a_fake_one(kubectl: Kubectl) -> None:
    pods = kubectl.list("pods", "app=web")
    assert {pod["spec"]["nodeName"] for pod in pods} == {"node-0", "node-1"}


@pytest.mark.parametrize("url", [f"http://web.{NAMESPACE}.svc", f"http://web.{NAMESPACE}.svc.cluster.local:80/"])
def test_a_service_is_found_by_name_from_each_node_and_spreads_over_both(lab: Lab, kubectl: Kubectl, url: str) -> None:
    pods = {pod["metadata"]["name"] for pod in kubectl.list("pods", "app=web")}
    for node in (0, 1):
        answers: set[str] = set()

        def answered_by_all(node: int = node, answers: set[str] = answers) -> bool:
            command = lab.command(["python3", "-c", FETCH, url], node)
            page = subprocess.run(command, env=lab.environment(), capture_output=True, text=True, check=True).stdout
            answers.update(pod for pod in pods if pod in page)
            return answers == pods

        wait_until(f"answers of {pods} on node {node}", answered_by_all, within=20, every=0.1)


def test_pods_find_each_other_and_prometheus_by_name(kubectl: Kubectl) -> None:
    for url in ("http://web", "http://prometheus.monitoring.svc:9090/-/ready"):
        for pod in kubectl.list("pods", "app=web"):
            assert kubectl.run("exec", pod["metadata"]["name"], "--", "python3", "-c", FETCH, url)


def test_logs_can_be_read_on_both_nodes(kubectl: Kubectl) -> None:
    for pod in kubectl.list("pods", "app=web"):
        assert kubectl.run("logs", pod["metadata"]["name"]).startswith("serving")


def test_a_root_pod_is_refused(kubectl: Kubectl) -> None:
    done = subprocess.run(
        [kubectl.binary, "-n", NAMESPACE, "run", "root", "--image=none", "--dry-run=server"],
        env={"KUBECONFIG": str(kubectl.kubeconfig)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "violates PodSecurity" in done.stderr


def test_prometheus_follows_the_pods(lab: Lab, kubectl: Kubectl) -> None:
    pods = {pod["metadata"]["name"] for pod in kubectl.list("pods", "app=web")}
    query = urllib.parse.urlencode({"query": f'web_up{{namespace="{NAMESPACE}"}}'})
    url = f"{observe(lab).urls['Prometheus']}/api/v1/query?{query}"

    def scraped() -> bool:
        with urllib.request.urlopen(url, timeout=5) as answer:
            found = {item["metric"]["pod"] for item in json.load(answer)["data"]["result"]}
        return found == pods

    wait_until(f"web_up of {pods}", scraped, within=30)


def test_a_killed_api_server_comes_back_and_pods_never_notice(lab: Lab, kubectl: Kubectl) -> None:
    before = {pod["metadata"]["uid"] for pod in kubectl.list("pods", "app=web")}
    assert lab.stop("apiserver", signal.SIGKILL)
    assert lab.start("apiserver")
    pods = kubectl.list("pods", "app=web")
    assert {pod["metadata"]["uid"] for pod in pods} == before
    assert all(pod["status"]["containerStatuses"][0]["restartCount"] == 0 for pod in pods)


def test_a_deleted_pod_ends_and_is_replaced(kubectl: Kubectl) -> None:
    name = kubectl.list("pods", "app=web")[0]["metadata"]["name"]
    kubectl.delete("pod", name)
    kubectl.run("rollout", "status", "deployment/web", "--timeout=60s")
    assert name not in {pod["metadata"]["name"] for pod in kubectl.list("pods", "app=web")}


def test_labs_live_side_by_side_and_each_leaves_nothing_behind(lab: Lab, kubectl: Kubectl) -> None:
    before = traces()
    with ExitStack() as stack:
        real = stack.enter_context(running("lab-twin", Size(Profile.FULL, nodes=1, gpu_nodes=0)))
        fake = stack.enter_context(running("lab-fake", Size(Profile.CONTROL_PLANE, nodes=0, gpu_nodes=3)))
        uids = {cluster_id(kubeconfig) for kubeconfig in (lab.kubeconfig, real.kubeconfig, fake.kubeconfig)}
        assert len(uids) == 3
        assert {node.name for node in observe(fake).nodes} == {"gpu-0000", "gpu-0001", "gpu-0002"}
        prefix = cgroup_prefix(real.directory)
    assert traces() == before
    assert not processes.find(real.directory)
    assert not [found for root in cgroups.hierarchies() for found in root.glob(f"{prefix}*")]
    assert not real.directory.exists()
    assert not fake.directory.exists()
    assert len(kubectl.list("pods", "app=web")) == 2
    assert observe(lab).up


def test_down_is_safe_to_repeat() -> None:
    lab = Lab.named("lab-never-up")
    assert lab.down() == 0
    assert lab.down(wipe=True) == 0


def cluster_id(kubeconfig: Path) -> str:
    uid: str = Kubectl(binaries.kubectl(), kubeconfig).get("namespace", "kube-system")["metadata"]["uid"]
    return uid


def traces() -> dict[str, str]:
    """Everything of the host that a lab could leave something in."""
    commands = {
        "interfaces": ["ip", "-oneline", "link"],
        "routes": ["ip", "route", "show", "table", "all"],
        "firewall rules": ["nft", "list", "ruleset"],
    }
    environment = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin"}
    found = {
        what: subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout
        for what, command in commands.items()
    }
    mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
    # an image build that somebody runs meanwhile mounts its layers
    found["mounts"] = "\n".join(line for line in mounts if "/storage/overlay" not in line)
    for folder in ("/run", "/var/lib", "/var/log", "/usr/libexec", "/opt", "/etc"):
        found[folder] = "\n".join(sorted(entry.name for entry in Path(folder).iterdir()))
    return found
