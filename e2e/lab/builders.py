"""The two programs that can turn a Dockerfile into an image archive: buildah, and docker where only that is there."""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from e2e.lab.errors import LabError
from e2e.lab.progress import Progress


@dataclass(frozen=True, slots=True)
class Build:
    """One image to make."""

    reference: str
    context: Path
    dockerfile: Path
    arguments: Mapping[str, str]
    mounts: Mapping[Path, str]
    """Host files to show, read-only, at a path inside the build."""


class Builder(ABC):
    """Makes images in a storage and takes them out of it as docker-archive files."""

    local_base: bool
    """Whether base images come from Debian packages (else from the registry that the Dockerfile names)."""

    @abstractmethod
    def build(self, build: Build, title: str, log: Path, progress: Progress) -> None:
        """Makes the image. Raises LabError."""

    @abstractmethod
    def save(self, reference: str, archive: Path, log: Path, progress: Progress) -> None:
        """Writes the image to the new file `archive`. Raises LabError."""

    @abstractmethod
    def has(self, reference: str) -> bool:
        """Whether the image is in the storage."""

    @abstractmethod
    def remove(self, references: Sequence[str]) -> None:
        """Removes images, if they are there."""


class Buildah(Builder):
    """buildah with a storage of our own, so that the machine's containers and images are never touched.

    It runs in a mount namespace of its own: whatever it has mounted goes with it, even when it is killed.
    """

    local_base = True

    def __init__(self, storage: Path, scratch: Path) -> None:
        self._storage = storage
        self._scratch = scratch

    def build(self, build: Build, title: str, log: Path, progress: Progress) -> None:
        progress.run(title, self.build_command(build), log=log, env=self._environment(), fix=f"see {log}")

    def save(self, reference: str, archive: Path, log: Path, progress: Progress) -> None:
        command = self._command("push", "--quiet", reference, f"docker-archive:{archive}:{reference}")
        progress.run(f"Write {reference} to an archive", command, log=log, env=self._environment(), fix=f"see {log}")

    def has(self, reference: str) -> bool:
        return self._quietly("inspect", "--type", "image", reference)

    def remove(self, references: Sequence[str]) -> None:
        for reference in references:
            self._quietly("rmi", reference)

    def remove_working_containers(self) -> None:
        """What interrupted builds left behind."""
        self._quietly("rm", "--all")

    def build_command(self, build: Build) -> list[str]:
        """`chroot` isolation needs no container runtime and uses the host's network."""
        arguments = [f"--build-arg={name}={value}" for name, value in build.arguments.items()]
        volumes = [f"--volume={host}:{inside}:ro" for host, inside in build.mounts.items()]
        return self._command(
            *("bud", "--isolation=chroot", "--layers", "--pull-never", "--format=docker", "--force-rm"),
            *(*arguments, *volumes, f"--tag={build.reference}", f"--file={build.dockerfile}", str(build.context)),
        )

    def _command(self, *arguments: str) -> list[str]:
        storage = (f"--root={self._storage}", f"--runroot={self._scratch / 'run'}", "--storage-driver=overlay")
        return ["unshare", "--mount", "--propagation=private", "buildah", *storage, *arguments]

    def _environment(self) -> dict[str, str]:
        return {"TMPDIR": str(self._scratch)}

    def _quietly(self, *arguments: str) -> bool:
        return subprocess.run(self._command(*arguments), capture_output=True, check=False).returncode == 0


class Docker(Builder):
    """The machine's Docker. An image is removed from it once it is saved."""

    local_base = False

    def build(self, build: Build, title: str, log: Path, progress: Progress) -> None:
        arguments = [f"--build-arg={name}={value}" for name, value in build.arguments.items()]
        places = (f"--tag={build.reference}", f"--file={build.dockerfile}", str(build.context))
        progress.run(title, ["docker", "build", *arguments, *places], log=log, fix=f"see {log}")

    def save(self, reference: str, archive: Path, log: Path, progress: Progress) -> None:
        command = ["docker", "save", f"--output={archive}", reference]
        progress.run(f"Write {reference} to an archive", command, log=log, fix=f"see {log}")
        self.remove([reference])

    def has(self, reference: str) -> bool:
        command = ["docker", "image", "inspect", reference]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def remove(self, references: Sequence[str]) -> None:
        for reference in references:
            subprocess.run(["docker", "image", "rm", reference], capture_output=True, check=False)


def docker_answers() -> bool:
    """Whether there is a Docker client whose daemon runs. Raises LabError when the daemon hangs."""
    if shutil.which("docker") is None:
        return False
    try:
        asked = subprocess.run(["docker", "info"], capture_output=True, check=False, timeout=20)
    except subprocess.TimeoutExpired as error:
        raise LabError("`docker info` gave no answer for 20 s; restart Docker, or install buildah") from error
    return asked.returncode == 0
