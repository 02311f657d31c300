"""What a lab remembers between commands."""

from __future__ import annotations

import socket
from dataclasses import asdict
from pathlib import Path

import pytest

from e2e.lab import state
from e2e.lab.errors import LabError
from e2e.lab.spec import LabSpec, Ports, Profile
from e2e.lab.state import State

USUAL = Ports()


def control_plane(directory: Path, ports: Ports = USUAL) -> LabSpec:
    return LabSpec(directory / "lab", Profile.CONTROL_PLANE, 0, 5, ports)


def test_state_reads_back_as_written(tmp_path: Path) -> None:
    known = State(control_plane(tmp_path, Ports(etcd=20001)), {"etcd": Path("/programs/etcd")}, complete=True)
    state.save(known)
    assert state.load(known.spec.directory) == known


def test_there_is_no_state_before_the_first_up(tmp_path: Path) -> None:
    assert state.load(tmp_path / "lab") is None


@pytest.mark.parametrize("content", ["", "[]", "{}", '{"profile": "huge"}'])
def test_a_file_of_another_version_is_refused_with_the_way_out(tmp_path: Path, content: str) -> None:
    (tmp_path / "lab.json").write_text(content)
    with pytest.raises(LabError, match="down --wipe"):
        state.load(tmp_path)


def test_chosen_ports_are_distinct_and_kept_while_they_are_free(tmp_path: Path) -> None:
    first = state.choose_ports(control_plane(tmp_path))
    assert len(set(asdict(first).values())) == len(asdict(first))
    assert state.choose_ports(control_plane(tmp_path, first)) == first


def test_a_port_that_somebody_took_meanwhile_is_replaced(tmp_path: Path) -> None:
    first = state.choose_ports(control_plane(tmp_path))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first.apiserver))
        taken.listen()
        second = state.choose_ports(control_plane(tmp_path, first))
    assert second.apiserver != first.apiserver
    assert second.etcd == first.etcd


def test_the_full_profile_opens_two_ports_on_the_host_and_keeps_the_usual_ones_inside(tmp_path: Path) -> None:
    chosen = state.choose_ports(LabSpec(tmp_path / "lab", Profile.FULL, 1))
    usual = Ports()
    assert (chosen.etcd, chosen.kwok) == (usual.etcd, usual.kwok)
    assert chosen.apiserver != usual.apiserver
    assert chosen.prometheus != usual.prometheus


def test_two_commands_on_one_lab_take_turns(tmp_path: Path) -> None:
    with (
        state.locked(tmp_path),
        pytest.raises(LabError, match="another command is changing the lab"),
        state.locked(tmp_path),
    ):
        pytest.fail("both hold the lab")
    with state.locked(tmp_path):
        assert (tmp_path / ".lock").exists()
