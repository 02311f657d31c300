"""A lab's handle where nothing runs: names, and what is left of labs that broke."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.lab.errors import LabError
from e2e.lab.lab import Lab, Size
from e2e.lab.spec import LabSpec, Ports, Profile
from e2e.lab.state import State, save


@pytest.mark.parametrize("name", ["../elsewhere", "/tmp", "a/b", "..", ""])
def test_a_path_is_not_a_name(name: str) -> None:
    with pytest.raises(LabError, match="is not valid"):
        Lab.named(name)


def test_state_that_cannot_be_read_says_what_removes_it_and_that_does(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    lab.directory.mkdir()
    (lab.directory / "lab.json").write_text("{")
    with pytest.raises(LabError, match="down --wipe"):
        lab.up(Size(Profile.CONTROL_PLANE, 0, 1))
    assert lab.down(wipe=True) == 0
    assert not lab.directory.exists()


def test_a_lab_that_never_was_has_nothing_to_show(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    with pytest.raises(LabError, match="there is no lab 'lab'"):
        lab.components()
    assert lab.down(wipe=True) == 0


def test_down_keeps_data_and_keys_unless_they_are_wiped(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    (lab.directory / "data" / "etcd").mkdir(parents=True)
    lab.down()
    assert (lab.directory / "data" / "etcd").exists()
    lab.down(wipe=True)
    assert not lab.directory.exists()


def test_a_lab_of_another_version_of_the_checkout_is_not_half_understood(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    spec = LabSpec(lab.directory, Profile.CONTROL_PLANE, 0, 1, Ports())
    save(State(spec, {"etcd": tmp_path / "etcd-of-old"}, complete=True))
    with pytest.raises(LabError, match="another version of this checkout"):
        lab.start("etcd")


def test_real_nodes_are_needed_for_images(tmp_path: Path) -> None:
    lab = Lab(tmp_path / "lab")
    save(State(LabSpec(lab.directory, Profile.CONTROL_PLANE, 0, 1, Ports()), {}, complete=True))
    with pytest.raises(LabError, match="no real nodes"):
        lab.load(tmp_path / "image.tar")
