"""The namespaces that a `full` lab lives in, and what is set up inside each.

One `unshare` makes network, mount and pid namespaces; everything of the lab runs in them. Killing their first process
ends all processes, and mounts, interfaces, routes and firewall rules go with the namespaces. Node 0 shares them with
the control plane; each further node has network and mount namespaces of its own inside, joined by a veth pair.

Nothing on the host is written: folders that Kubernetes expects at fixed paths are made on private tmpfs mounts.
(Mount points made on the host instead would be shared by all labs, and removing one unmounts it in all of them.)
"""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from e2e.lab import processes
from e2e.lab.connection import Connector, direct, inside
from e2e.lab.errors import LabError
from e2e.lab.host import search_path
from e2e.lab.processes import Process
from e2e.lab.runtime import Node, Runtime
from e2e.lab.spec import CONTROL_PLANE_IP, SERVICE_CIDR, LabSpec, node_ip, node_pod_cidr

HOLDER_PROGRAM = "sh"
# As first process of the pid namespace it also reaps orphans: `wait` collects every child, adopted ones too.
HOLDER_ARGV = (HOLDER_PROGRAM, "-c", 'trap "exit 0" TERM; while :; do sleep 3600 & wait; done')
HOLDER_TIMEOUT_SECONDS = 10.0
ORIGINALS = "/run/pd-lab"
"""Where a shadowed folder's original stays reachable inside the namespace."""

Command = tuple[str, ...]


def holder(node: int) -> str:
    """Component name of the process that keeps a node's namespaces alive."""
    return f"namespace.{node}"


def holder_process(spec: LabSpec, node: int, among: Sequence[Process] | None = None) -> Process | None:
    known = processes.find(spec.directory) if among is None else among
    return processes.main_process(known, holder(node), HOLDER_PROGRAM)


def create(spec: LabSpec) -> None:
    """Makes the namespaces of all nodes and sets them up. There must be none yet."""
    for node in spec.node_indexes:
        _launch_holder(spec, node)
        _run(spec, node, mounts(spec, node, host_entries()))
        _run(spec, node, node_network(node))
        if node > 0:
            # both ends are made from node 0's side; the far one moves into the node's namespace
            _run(spec, 0, link_near_end(node, inner_pid(_pid(spec, node))))
            _run(spec, node, link_far_end(node))


def runtime(spec: LabSpec) -> Runtime:
    """The lab's runtime; its namespaces are looked up when they are entered."""

    def enter(node: Node) -> tuple[str, ...]:
        return () if node is None else enter_command(_pid(spec, node), Path.cwd())

    def connector(node: Node) -> Connector:
        return direct if node is None else inside(_pid(spec, node))

    return Runtime(spec, enter, connector)


def enter_command(pid: int, working_directory: Path) -> tuple[str, ...]:
    """The prefix that runs a command in the namespaces of the process `pid`."""
    # -m alone would move the working directory to the namespace's root
    return ("nsenter", f"--target={pid}", "--net", "--mount", "--pid", f"--wdns={working_directory}", "--")


def mounts(spec: LabSpec, node: int, entries: Mapping[str, Sequence[str]]) -> list[Command]:
    """Private folders where kubelet, containerd and runc have fixed paths. `entries` lists what is there already."""
    data = spec.node_data(node)
    commands: list[Command] = [
        ("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", "/run"),
        *_shadow("/var/lib", entries["/var/lib"], {"kubelet": data / "kubelet", "cni": None}),
        *_shadow("/var/log", entries["/var/log"], {"pods": data / "pod-logs", "containers": None}),
    ]
    resolver = os.path.realpath("/etc/resolv.conf")
    if resolver.startswith("/run/"):  # on such a host it went with /run
        commands += [("mkdir", "-p", str(Path(resolver).parent)), ("touch", resolver)]
    commands.append(("mount", "--bind", str(spec.config / "resolv.conf"), resolver))
    return commands


def host_entries() -> dict[str, list[str]]:
    """Folders inside the two that `mounts` shadows."""
    return {
        parent: sorted(entry.name for entry in os.scandir(parent) if entry.is_dir(follow_symlinks=False))
        for parent in ("/var/lib", "/var/log")
    }


def node_network(node: int) -> list[Command]:
    """The node's address and the Services' range on its loopback: no other interface is needed for them."""
    address = node_ip(node)
    return [
        ("ip", "link", "set", "lo", "up"),
        ("ip", "address", "add", f"{address}/32", "dev", "lo"),
        # traffic to a Service must leave through some interface for kube-proxy's rules to see it
        ("ip", "route", "add", SERVICE_CIDR, "dev", "lo", "src", address),
        ("sh", "-c", "echo 1 > /proc/sys/net/ipv4/ip_forward"),
    ]


def link_near_end(node: int, pid: int) -> list[Command]:
    """Node 0's side of the link to a further node, whose namespaces the process `pid`, as node 0 counts, holds."""
    near, far = link_addresses(node)
    device = f"node{node}"
    return [
        ("ip", "link", "add", device, "type", "veth", "peer", "name", "eth0", "netns", str(pid)),
        ("ip", "address", "add", f"{near}/30", "dev", device),
        ("ip", "link", "set", device, "up"),
        ("ip", "route", "add", f"{node_ip(node)}/32", "via", far, "onlink", "dev", device),
        ("ip", "route", "add", node_pod_cidr(node), "via", far, "onlink", "dev", device, "src", CONTROL_PLANE_IP),
    ]


def link_far_end(node: int) -> list[Command]:
    """A further node's side of its link: everything that is not its own goes through node 0."""
    near, far = link_addresses(node)
    return [
        ("ip", "address", "add", f"{far}/30", "dev", "eth0"),
        ("ip", "link", "set", "eth0", "up"),
        ("ip", "route", "add", "default", "via", near, "src", node_ip(node)),
    ]


def link_addresses(node: int) -> tuple[str, str]:
    """Addresses of a link's two ends: node 0's and the further node's."""
    return f"10.89.{node}.1", f"10.89.{node}.2"


def _shadow(parent: str, entries: Sequence[str], own: Mapping[str, Path | None]) -> list[Command]:
    """A tmpfs over `parent` with all its folders bound back, except the lab's own: bound from a path, or empty."""
    original = f"{ORIGINALS}{parent}"
    commands: list[Command] = [
        ("mkdir", "-p", original),
        ("mount", "--rbind", parent, original),
        ("mount", "-t", "tmpfs", "-o", "mode=0755", "tmpfs", parent),
    ]
    bound = {entry: f"{original}/{entry}" for entry in entries if entry not in own}
    bound |= {entry: str(source) for entry, source in own.items() if source is not None}
    commands.append(("mkdir", *(f"{parent}/{entry}" for entry in sorted({*entries, *own}))))
    commands += [("mount", "--rbind", source, f"{parent}/{entry}") for entry, source in bound.items()]
    return commands


def _launch_holder(spec: LabSpec, node: int) -> None:
    if node == 0:
        enter: tuple[str, ...] = ()
        flags: tuple[str, ...] = ("--pid", "--fork", "--mount-proc", "--kill-child")
    else:
        enter = enter_command(_pid(spec, 0), Path.cwd())
        flags = ()
    processes.launch(
        ("unshare", "--net", "--mount", "--propagation", "private", *flags, "--", *HOLDER_ARGV),
        directory=spec.directory,
        component=holder(node),
        log=spec.log(holder(node)),
        enter=enter,
    )
    processes.wait_until(
        lambda: holder_process(spec, node) is not None,
        what=holder(node),
        timeout=HOLDER_TIMEOUT_SECONDS,
        alive=lambda: any(process.component == holder(node) for process in processes.find(spec.directory)),
        log=spec.log(holder(node)),
    )


def _pid(spec: LabSpec, node: int) -> int:
    found = holder_process(spec, node)
    if found is None:
        raise LabError(f"the lab {spec.name!r} has no running node {node}; `up` it first")
    return found.pid


def inner_pid(pid: int) -> int:
    """The host's process `pid` as the innermost pid namespace that it is in numbers it."""
    status = Path("/proc", str(pid), "status").read_text(encoding="ascii", errors="replace")
    line = next(line for line in status.splitlines() if line.startswith("NSpid:"))
    return int(line.split()[-1])


def _run(spec: LabSpec, node: int, commands: Sequence[Command]) -> None:
    """Runs the commands in a node's namespaces, one after the other, up to the first that fails."""
    script = "\n".join(["set -e", *(shlex.join(command) for command in commands)])
    done = subprocess.run(
        [*enter_command(_pid(spec, node), Path("/")), "sh", "-c", script],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": search_path()},
        check=False,
    )
    if done.returncode != 0:
        output = (done.stderr or done.stdout).strip()
        raise LabError(f"setting up node {node} of the lab {spec.name!r} failed: {output}")
