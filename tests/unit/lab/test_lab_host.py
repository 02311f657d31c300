"""Rights of the caller and cgroups of the host."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.lab import cgroups, host
from e2e.lab.errors import LabError
from e2e.lab.spec import LabSpec, Profile, cgroup_prefix

ALL = "Name:\tpython\nCapEff:\t000001ffffffffff\n"
WITHOUT_RESOURCE = "Name:\tpython\nCapEff:\t000001fffeffffff\n"
DOCKER_DEFAULT = "Name:\tpython\nCapEff:\t00000000a80425fb\n"


def test_a_user_without_root_is_told_of_the_profile_that_needs_none() -> None:
    with pytest.raises(LabError, match="PROFILE=control-plane"):
        host.check_rights(user_id=1000, status=ALL)


def test_an_unprivileged_container_is_told_what_it_lacks() -> None:
    with pytest.raises(LabError, match=r"CAP_NET_ADMIN.*CAP_SYS_ADMIN.*--privileged"):
        host.check_rights(user_id=0, status=DOCKER_DEFAULT)


@pytest.mark.parametrize("status", [ALL, WITHOUT_RESOURCE])
def test_root_is_enough_also_without_the_right_to_raise_limits(status: str) -> None:
    host.check_rights(user_id=0, status=status)


def test_system_folders_follow_the_caller_s_path() -> None:
    assert host.search_path({"PATH": "/opt/bin"}) == "/opt/bin:/usr/local/sbin:/usr/sbin:/sbin"


def spec(folder: Path) -> LabSpec:
    return LabSpec(folder / "lab", Profile.FULL, nodes=2)


def test_a_v1_cpuset_is_filled_so_that_processes_may_enter(tmp_path: Path) -> None:
    for name in ("memory", "cpuset"):
        (tmp_path / name).mkdir()
    (tmp_path / "cpuset" / "cpuset.cpus").write_text("0-1\n")
    (tmp_path / "cpuset" / "cpuset.mems").write_text("0\n")
    lab = spec(tmp_path)
    cgroups.create(lab, tmp_path)
    (node_0, node_1) = sorted((tmp_path / "cpuset").glob(f"{cgroup_prefix(lab.directory)}-*"))
    assert (node_0 / "cpuset.cpus").read_text() == (node_1 / "cpuset.cpus").read_text() == "0-1\n"
    assert len(list((tmp_path / "memory").glob(f"{cgroup_prefix(lab.directory)}-*"))) == 2


def test_a_v2_cgroup_hands_all_controllers_down(tmp_path: Path) -> None:
    (tmp_path / "cgroup.controllers").write_text("cpu memory pids\n")
    lab = spec(tmp_path)
    cgroups.create(lab, tmp_path)
    for folder in (tmp_path, *tmp_path.glob(f"{cgroup_prefix(lab.directory)}-*")):
        assert (folder / "cgroup.subtree_control").read_text() == "+cpu +memory +pids"


def test_removal_takes_nested_groups_of_this_lab_only(tmp_path: Path) -> None:
    lab = spec(tmp_path)
    (tmp_path / "memory" / f"{cgroup_prefix(lab.directory)}-0" / "kubepods" / "pod1").mkdir(parents=True)
    (tmp_path / "memory" / "pd-lab-other-0").mkdir()
    cgroups.remove(lab.directory, tmp_path)
    assert [folder.name for folder in (tmp_path / "memory").iterdir()] == ["pd-lab-other-0"]
