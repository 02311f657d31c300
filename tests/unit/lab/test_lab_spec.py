"""A lab's name, size and derived names."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.lab.errors import LabError
from e2e.lab.spec import LabSpec, Ports, Profile, cgroup_name, cgroup_prefix


def full(directory: str = "/clone/build/lab", nodes: int = 2) -> LabSpec:
    return LabSpec(Path(directory), Profile.FULL, nodes, gpu_nodes=3)


@pytest.mark.parametrize("name", ["Lab", "-lab", "lab-", "a" * 31, "lab.1", "lab name"])
def test_a_name_that_cannot_be_part_of_other_names_is_refused(name: str) -> None:
    with pytest.raises(LabError, match="use up to 30 lower-case letters"):
        full(f"/clone/build/{name}")


@pytest.mark.parametrize(
    ("profile", "nodes", "gpu_nodes", "message"),
    [
        (Profile.FULL, 0, 0, "1 to 9 real nodes"),
        (Profile.FULL, 10, 0, "1 to 9 real nodes"),
        (Profile.CONTROL_PLANE, 1, 0, "no real nodes"),
        (Profile.CONTROL_PLANE, 0, -1, "use 0 to 5000"),
    ],
)
def test_a_size_out_of_range_is_refused(profile: Profile, nodes: int, gpu_nodes: int, message: str) -> None:
    with pytest.raises(LabError, match=message):
        LabSpec(Path("/clone/build/lab"), profile, nodes, gpu_nodes)


def test_a_relative_folder_is_refused() -> None:
    with pytest.raises(LabError, match="not absolute"):
        LabSpec(Path("build/lab"))


def test_labs_of_the_same_name_in_two_clones_have_different_cgroups() -> None:
    assert cgroup_name(full("/one/build/lab"), 0) != cgroup_name(full("/two/build/lab"), 0)


def test_no_lab_claims_the_cgroups_of_another_whose_name_begins_alike() -> None:
    assert not cgroup_name(full("/clone/build/lab-2"), 0).startswith(cgroup_prefix(Path("/clone/build/lab")))


def test_components_find_the_api_server_at_a_node_address_or_at_loopback() -> None:
    control_plane = LabSpec(Path("/clone/build/t"), Profile.CONTROL_PLANE, 0, 0, Ports(apiserver=20001))
    assert control_plane.api_url == "https://127.0.0.1:20001"
    assert full().api_url == "https://10.90.0.1:6443"
