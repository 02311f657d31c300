"""What is set up inside a lab's namespaces."""

from __future__ import annotations

from pathlib import Path

from e2e.lab import namespaces
from e2e.lab.spec import LabSpec, Profile

SPEC = LabSpec(Path("/clone/build/lab"), Profile.FULL, nodes=2)
ENTRIES = {"/var/lib": ["dpkg", "kubelet"], "/var/log": ["apt"]}


def test_folders_at_fixed_paths_are_made_on_private_mounts_never_on_the_host() -> None:
    covered: set[str] = set()
    for command in namespaces.mounts(SPEC, 0, ENTRIES):
        if command[:3] == ("mount", "-t", "tmpfs"):
            covered.add(command[-1])
        if command[0] == "mkdir":
            made = [word for word in command[1:] if not word.startswith("-")]
            assert all(any(path.startswith(f"{parent}/") for parent in covered) for path in made), command
    assert covered == {"/run", "/var/lib", "/var/log"}


def test_what_the_host_has_in_those_folders_stays_visible_except_the_lab_s_own() -> None:
    commands = namespaces.mounts(SPEC, 1, ENTRIES)
    assert ("mount", "--rbind", "/run/pd-lab/var/lib/dpkg", "/var/lib/dpkg") in commands
    assert ("mount", "--rbind", "/clone/build/lab/data/node-1/kubelet", "/var/lib/kubelet") in commands
    assert ("mount", "--rbind", "/run/pd-lab/var/lib/kubelet", "/var/lib/kubelet") not in commands


def test_a_further_node_is_reached_through_its_link_and_everything_else_through_node_0() -> None:
    near = namespaces.link_near_end(1, pid=4711)
    far = namespaces.link_far_end(1)
    assert ("ip", "route", "add", "10.90.0.2/32", "via", "10.89.1.2", "onlink", "dev", "node1") in near
    assert any(command[:4] == ("ip", "route", "add", "10.88.1.0/24") for command in near)
    assert ("ip", "route", "add", "default", "via", "10.89.1.1", "src", "10.90.0.2") in far


def test_entering_keeps_the_working_directory() -> None:
    command = namespaces.enter_command(4711, Path("/clone"))
    assert command == ("nsenter", "--target=4711", "--net", "--mount", "--pid", "--wdns=/clone", "--")
