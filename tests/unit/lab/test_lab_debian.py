"""What comes from the Linux distribution: found anywhere, installed only where that is wanted."""

from __future__ import annotations

import io
import shutil
from pathlib import Path

import pytest

from e2e.lab import debian
from e2e.lab.errors import LabError
from e2e.lab.progress import Progress

# Installs by creating the program named in $PROVIDES, once its lists are up to date; notes the policy at that time.
FAKE_APT = """#!/bin/sh
echo "$@" >> {folder}/calls
case $1 in
    update) : > {folder}/lists ;;
    install)
        [ -e {folder}/lists ] || {{ echo "E: Unable to locate package"; exit 100; }}
        cat {folder}/policy > {folder}/policy-seen
        for program in $PROVIDES; do
            printf '#!/bin/sh\\n' > {folder}/bin/$program
            chmod +x {folder}/bin/$program
        done ;;
esac
"""


class Machine:
    """An empty system: PATH with only what a test puts there."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.policy = folder / "policy"
        self.seen = io.StringIO()
        (folder / "bin").mkdir()

    def provide(self, *programs: str) -> None:
        for program in programs:
            self._program(program, "#!/bin/sh\n")

    def provide_apt(self, *, lists: bool = True) -> None:
        if lists:
            (self.folder / "lists").touch()
        (self.folder / "bin" / "cat").symlink_to(shutil.which("cat", path="/usr/bin:/bin") or "/bin/cat")
        (self.folder / "bin" / "chmod").symlink_to(shutil.which("chmod", path="/usr/bin:/bin") or "/bin/chmod")
        self._program("apt-get", FAKE_APT.format(folder=self.folder))

    def ensure(self, *packages: str) -> None:
        debian.ensure(packages, Progress(self.seen))

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def _program(self, name: str, text: str) -> None:
        path = self.folder / "bin" / name
        path.write_text(text)
        path.chmod(0o755)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    machine = Machine(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("PD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(debian, "_FOLDERS", (str(tmp_path / "system"),))
    monkeypatch.setattr(debian, "POLICY", machine.policy)
    monkeypatch.setattr("os.geteuid", lambda: 0)
    return machine


def test_nothing_happens_when_the_programs_are_there(machine: Machine) -> None:
    machine.provide("containerd", "ctr", "runc")
    machine.ensure("containerd", "runc")
    assert machine.seen.getvalue() == ""


def test_programs_in_system_folders_count(machine: Machine) -> None:
    system = machine.folder / "system"
    system.mkdir()
    (system / "nft").touch(mode=0o755)
    assert debian.find("nft") == system / "nft"
    assert debian.is_there("nftables")


def test_a_package_is_there_only_with_all_its_programs(machine: Machine) -> None:
    machine.provide("containerd")
    assert not debian.is_there("containerd")


def test_only_what_is_missing_is_installed_without_recommendations_or_removals(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.provide_apt()
    machine.provide("runc")
    monkeypatch.setenv("PROVIDES", "nft ip")
    machine.ensure("runc", "nftables", "iproute2", "nftables")
    options = "--yes --no-install-recommends --no-remove -o DPkg::Lock::Timeout=300"
    assert machine.calls() == [f"install {options} nftables iproute2"]
    assert "Install Debian packages nftables, iproute2" in machine.seen.getvalue()


def test_a_machine_without_package_lists_gets_them(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.provide_apt(lists=False)
    monkeypatch.setenv("PROVIDES", "nft")
    machine.ensure("nftables")
    assert [call.split()[0] for call in machine.calls()] == ["install", "update", "install"]


def test_no_service_starts_and_the_policy_goes_afterwards(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.provide_apt()
    monkeypatch.setenv("PROVIDES", "nft")
    machine.ensure("nftables")
    assert (machine.folder / "policy-seen").read_text().endswith("exit 101\n")
    assert not machine.policy.exists()


def test_the_administrators_own_policy_stays(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.provide_apt()
    machine.policy.write_text("#!/bin/sh\nexit 0\n")
    monkeypatch.setenv("PROVIDES", "nft")
    machine.ensure("nftables")
    assert machine.policy.read_text() == "#!/bin/sh\nexit 0\n"


def test_a_failed_installation_names_the_command_to_try_by_hand(machine: Machine) -> None:
    machine.provide_apt()
    machine._program("apt-get", "#!/bin/sh\necho broken; exit 100\n")
    with pytest.raises(LabError, match=r"status 100; run `apt-get install --yes .* nftables` by hand"):
        machine.ensure("nftables")
    assert not machine.policy.exists()


def test_a_package_without_its_program_is_reported(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.provide_apt()
    monkeypatch.setenv("PROVIDES", "")
    with pytest.raises(LabError, match="installed nftables, but not its programs nft"):
        machine.ensure("nftables")


def test_a_user_gets_the_command_for_root(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.provide_apt()
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(
        LabError, match=r"needs nftables, runc .*sudo apt-get install --no-install-recommends nftables runc"
    ):
        machine.ensure("nftables", "runc")


def test_another_distribution_gets_the_programs_names(machine: Machine) -> None:
    with pytest.raises(LabError, match="install the programs containerd, ctr, ip with this system's package manager"):
        machine.ensure("containerd", "iproute2")


def test_an_unlisted_package_is_refused(machine: Machine) -> None:
    with pytest.raises(LabError, match="package emacs is not known"):
        machine.ensure("emacs")
    assert set(debian.NODE) | set(debian.IMAGES) <= set(debian._PROGRAMS)
