"""The files that a Dockerfile copies: which they are, what they add up to, and a folder with only them."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import stat
import subprocess
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path

from e2e.lab.errors import LabError

_CONTINUATION = re.compile(r"\\[ \t]*\n")
_COMMENT = re.compile(r"^\s*#.*\n?", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class BuildContext:
    """A folder as `docker build` takes it, reduced to what its Dockerfile copies."""

    directory: Path
    dockerfile: Path
    files: tuple[Path, ...]
    """Relative to `directory`, sorted."""

    def digest(self) -> str:
        """Identity of the Dockerfile and of the files: names, contents and whether they can be executed."""
        digest = sha256(self.dockerfile.read_bytes())
        for file in self.files:
            path = self.directory / file
            if path.is_symlink():
                kind, content = "link", str(path.readlink()).encode()
            else:
                kind = "program" if path.stat().st_mode & stat.S_IXUSR else "file"
                content = path.read_bytes()
            digest.update(f"\n{kind} {file} {len(content)}\n".encode() + content)
        return digest.hexdigest()

    def copy_to(self, target: Path) -> None:
        """Fills the new folder `target`, with modes that do not depend on the umask of whoever cloned."""
        target.mkdir(parents=True)
        for file in self.files:
            copy = target / file
            copy.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(self.directory / file, copy, follow_symlinks=False)
            if not copy.is_symlink():
                copy.chmod(0o755 if copy.stat().st_mode & stat.S_IXUSR else 0o644)
        for directory in (target, *(path for path in target.rglob("*") if path.is_dir())):
            directory.chmod(0o755)


def from_checkout(dockerfile: Path, directory: Path) -> BuildContext:
    """The context `directory` of a checkout: files that git tracks, and new ones that it does not ignore.

    Raises LabError when a file that the Dockerfile copies is not among them.
    """
    files: set[Path] = set()
    for source in copied(dockerfile.read_text(encoding="utf-8")):
        found = _checkout_files(directory, source)
        if not found:
            raise LabError(
                f"{dockerfile} copies {source}, but {directory} has no such file for git; "
                "correct the path, or the .gitignore that hides it"
            )
        files |= found
    return BuildContext(directory, dockerfile, tuple(sorted(files)))


def copied(dockerfile: str) -> list[str]:
    """The sources that a Dockerfile's COPY and ADD instructions take from the context."""
    sources: list[str] = []
    for line in _CONTINUATION.sub(" ", _COMMENT.sub("", dockerfile)).splitlines():
        instruction, _, rest = line.strip().partition(" ")
        if instruction.upper() not in ("COPY", "ADD"):
            continue
        bracket = rest.find("[")  # the JSON form, for names with spaces
        words = shlex.split(rest) if bracket < 0 else [*rest[:bracket].split(), *json.loads(rest[bracket:])]
        options = [word for word in words if word.startswith("--")]
        if not any(option.startswith("--from=") for option in options):
            sources += words[len(options) : -1]
    return sources


def _checkout_files(directory: Path, source: str) -> set[Path]:
    pattern = source.strip("/").removeprefix("./") or "."
    listed = subprocess.run(
        [
            # A container's root reads the clone of a user: that is no reason for git to refuse.
            *("git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"),
            *("--", pattern if pattern == "." else f":(glob){pattern}"),
        ],
        cwd=directory,
        capture_output=True,
        check=False,
    )
    if listed.returncode:
        raise LabError(f"git cannot list {directory}: {listed.stderr.decode(errors='replace').strip()}")
    names = [Path(name) for name in listed.stdout.decode().split("\0") if name]
    # A file that was deleted but not committed is still listed.
    return {name for name in names if (directory / name).is_symlink() or (directory / name).is_file()}
