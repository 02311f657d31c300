"""Images as archives: their identity, their context, their base, and what stays in the cache."""

from __future__ import annotations

import io
import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from e2e.lab import base_image, build_context, builders, images, package_index
from e2e.lab.builders import Build, Buildah, Builder
from e2e.lab.errors import LabError
from e2e.lab.images import Image
from e2e.lab.package_index import PackageIndex
from e2e.lab.progress import Progress

DOCKERFILE = """\
ARG BASE=python:3.12-slim
FROM ${BASE} AS build
# COPY nothing.txt here
COPY requirements/runtime.txt /tmp/
RUN echo COPY this
FROM ${BASE}
COPY --from=build /opt/venv /opt/venv
COPY --chown=65532:65532 operator \\
     LICENSE /app/
"""


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A git repository with one commit."""
    root = tmp_path / "checkout"
    for name in ("requirements/runtime.txt", "operator/app/main.py", "operator/run.sh", "LICENSE", "docs/x.md"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{name}\n")
    (root / "operator" / "run.sh").chmod(0o755)
    (root / "operator" / "Dockerfile").write_text(DOCKERFILE)
    (root / ".gitignore").write_text("*.pyc\n")
    (root / "operator" / "app" / "main.pyc").write_text("bytecode")
    for command in (("init", "--quiet"), ("add", ".")):
        subprocess.run(["git", *command], cwd=root, check=True)
    return root


def context(checkout: Path) -> build_context.BuildContext:
    return build_context.from_checkout(checkout / "operator" / "Dockerfile", checkout)


# ---- the context ----------------------------------------------------------------


def test_sources_are_read_from_every_form_of_copy() -> None:
    assert build_context.copied(DOCKERFILE) == ["requirements/runtime.txt", "operator", "LICENSE"]
    assert build_context.copied('COPY --chmod=644 ["a b", "c", "/x/"]\nadd d /') == ["a b", "c", "d"]


def test_the_context_is_what_the_dockerfile_copies_and_git_knows(checkout: Path) -> None:
    (checkout / "operator" / "new.py").write_text("not committed yet\n")
    (checkout / "LICENSE").unlink()
    (checkout / "LICENSE").symlink_to("docs/x.md")
    assert [str(path) for path in context(checkout).files] == [
        *("LICENSE", "operator/Dockerfile", "operator/app/main.py", "operator/new.py", "operator/run.sh"),
        "requirements/runtime.txt",
    ]


@pytest.mark.parametrize("source", [".", "./", "/", "./operator/../.", "*.md"])
def test_a_source_may_be_the_whole_context_or_a_pattern(checkout: Path, source: str) -> None:
    (checkout / "README.md").touch()
    (checkout / "operator" / "Dockerfile").write_text(f"COPY {source} /app/\n")
    assert Path("README.md") in context(checkout).files


def test_a_source_that_git_does_not_know_is_named(checkout: Path) -> None:
    (checkout / "operator" / "Dockerfile").write_text("COPY operator/app/main.pyc /app/\n")
    with pytest.raises(LabError, match=r"operator/Dockerfile copies operator/app/main\.pyc, but .* no such file"):
        context(checkout)


def test_a_folder_without_git_is_an_error_that_says_so(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text("COPY x /\n")
    with pytest.raises(LabError, match=r"git cannot list .*not a git repository"):
        build_context.from_checkout(tmp_path / "Dockerfile", tmp_path)


def test_the_digest_follows_content_names_modes_and_the_dockerfile_only(checkout: Path) -> None:
    first = context(checkout).digest()
    (checkout / "docs" / "x.md").write_text("not copied")
    os.utime(checkout / "LICENSE", (0, 0))
    assert context(checkout).digest() == first
    seen = {first}
    (checkout / "operator" / "app" / "main.py").write_text("changed")
    seen.add(context(checkout).digest())
    (checkout / "operator" / "app" / "main.py").chmod(0o755)
    seen.add(context(checkout).digest())
    (checkout / "operator" / "app" / "main.py").rename(checkout / "operator" / "app" / "other.py")
    seen.add(context(checkout).digest())
    (checkout / "operator" / "Dockerfile").write_text(DOCKERFILE + "USER 1\n")
    seen.add(context(checkout).digest())
    assert len(seen) == 5


def test_the_copied_context_does_not_depend_on_the_umask(checkout: Path, tmp_path: Path) -> None:
    for file in (checkout / "LICENSE", checkout / "operator" / "run.sh"):
        file.chmod(file.stat().st_mode & 0o700)
    context(checkout).copy_to(tmp_path / "copy")
    modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "copy").rglob("*")}
    assert modes["LICENSE"] == 0o644
    assert modes["run.sh"] == modes["operator"] == modes["app"] == 0o755
    assert "docs" not in modes


# ---- pip's settings ----------------------------------------------------------------


def test_a_machine_without_settings_of_its_own_mounts_nothing(tmp_path: Path) -> None:
    index = package_index.of_this_machine({}, ())
    assert index == PackageIndex({}, None)
    assert index.mounts(tmp_path) == {}


def test_the_environment_wins_over_the_files_as_in_pip(tmp_path: Path) -> None:
    config = tmp_path / "pip.conf"
    config.write_text(
        "[global]\nindex-url = https://from.file/\ntimeout = 10\ncert = /file.pem\nfind-links = /wheels\n"
    )
    environment = {
        "PIP_INDEX_URL": "https://from.environment/",
        "PIP_DEFAULT_TIMEOUT": "60",
        "SSL_CERT_FILE": "/env.pem",
    }
    index = package_index.of_this_machine(environment, (config, tmp_path / "absent.conf"))
    assert index.bundle == Path("/file.pem")
    assert index.settings == {"index-url": "https://from.environment/", "timeout": "10"}


def test_settings_and_certificates_are_mounted_not_copied(tmp_path: Path) -> None:
    mounts = PackageIndex({"index-url": "https://index/"}, Path("/own.pem")).mounts(tmp_path)
    assert mounts == {
        Path("/own.pem"): package_index.BUNDLE_IN_CONTAINER,
        tmp_path / "pip.conf": package_index.CONFIG_IN_CONTAINER,
    }
    written = (tmp_path / "pip.conf").read_text()
    assert written == f"[global]\nindex-url = https://index/\ncert = {package_index.BUNDLE_IN_CONTAINER}\n"


# ---- commands ----------------------------------------------------------------


def test_buildah_runs_on_a_storage_of_our_own_and_mounts_in_its_own_namespace() -> None:
    build = Build("localhost/x:1", Path("/context"), Path("/Dockerfile"), {"BASE": "b"}, {Path("/h"): "/i"})
    command = Buildah(Path("/storage"), Path("/scratch")).build_command(build)
    assert command[:4] == ["unshare", "--mount", "--propagation=private", "buildah"]
    assert {"--root=/storage", "--runroot=/scratch/run", "--build-arg=BASE=b", "--volume=/h:/i:ro"} <= set(command)
    assert {"--isolation=chroot", "--layers", "--pull-never", "--tag=localhost/x:1"} <= set(command)
    assert command[-1] == "/context"


def test_the_base_has_the_images_packages_besides_its_own() -> None:
    command = base_image.command(("libnuma1", "python3"), Path("/out.tar"))
    included = next(word for word in command if word.startswith("--include="))
    names = included.removeprefix("--include=").split(",")
    assert {"libnuma1", *base_image.PACKAGES} == set(names)
    assert len(names) == len(set(names))
    assert command[-2:] == [base_image.SUITE, "/out.tar"]


def test_bases_with_the_same_packages_are_one() -> None:
    assert base_image.key(("a", "b")) == base_image.key(("b", "a", "python3"))
    assert base_image.key(("a",)) != base_image.key(())


def test_docker_counts_only_when_its_daemon_answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert not builders.docker_answers()
    client = tmp_path / "docker"
    client.write_text("#!/bin/sh\nexit 1\n")
    client.chmod(0o755)
    assert not builders.docker_answers()
    client.write_text("#!/bin/sh\nexit 0\n")
    assert builders.docker_answers()


# ---- the cache ----------------------------------------------------------------


class FakeBuilder(Builder):
    """Writes the reference into the archive, and remembers what it was asked."""

    local_base = True

    def __init__(self) -> None:
        self.built: list[Build] = []
        self.removed: list[str] = []

    def build(self, build: Build, title: str, log: Path, progress: Progress) -> None:
        assert build.context.is_dir()
        self.built.append(build)

    def save(self, reference: str, archive: Path, log: Path, progress: Progress) -> None:
        archive.write_text(reference)

    def has(self, reference: str) -> bool:
        return True

    def remove(self, references: Sequence[str]) -> None:
        self.removed += references


@pytest.fixture
def builder(checkout: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeBuilder:
    """A checkout with one image, `operator`, and a builder that does nothing."""
    fake = FakeBuilder()

    @contextmanager
    def lend(directory: Path, *_: object, **__: object) -> Iterator[tuple[Builder, Path]]:
        scratch = tmp_path / f"scratch-{len(fake.built)}"
        scratch.mkdir()
        directory.mkdir(parents=True, exist_ok=True)
        yield fake, scratch

    monkeypatch.setenv("PD_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setattr(images, "ROOT", checkout)
    monkeypatch.setattr(images, "IMAGES", {"operator": Image("operator/Dockerfile", ".")})
    monkeypatch.setattr(images, "_with_docker", lambda: False)
    monkeypatch.setattr(images, "_builder", lend)
    return fake


def ensure() -> images.Archive:
    return images.ensure("operator", Progress(io.StringIO()))


def test_an_image_is_built_once_and_named_after_its_content(builder: FakeBuilder, checkout: Path) -> None:
    reference, path = ensure()
    assert path.read_text() == reference
    assert reference == f"localhost/pd-operator:{path.parent.name}"
    assert ensure() == (reference, path)
    assert [build.arguments for build in builder.built] == [{"BASE": base_image.reference(())}]
    (checkout / "operator" / "app" / "main.py").write_text("changed")
    assert ensure().reference != reference
    assert len(builder.built) == 2


def test_old_versions_go_from_the_cache_and_from_the_storage(builder: FakeBuilder, checkout: Path) -> None:
    made: list[images.Archive] = []
    for version in range(images.KEPT_VERSIONS + 1):
        (checkout / "operator" / "app" / "main.py").write_text(str(version))
        made.append(ensure())
        os.utime(made[-1].path, (version, version))
    (checkout / "operator" / "app" / "main.py").write_text("last")
    made.append(ensure())
    left = [archive for archive in made if archive.path.parent.exists()]
    assert left == made[-images.KEPT_VERSIONS :]
    assert builder.removed == [archive.reference for archive in made[: -images.KEPT_VERSIONS]]


@pytest.mark.usefixtures("builder")
def test_pruning_removes_the_storage_and_on_request_the_archives(tmp_path: Path) -> None:
    archive = ensure()
    storage = tmp_path / "cache" / "images" / "storage"
    (storage / "overlay").mkdir(parents=True)
    images.prune_all()
    assert not storage.exists()
    assert archive.path.exists()
    images.prune_all(archives=True)
    assert not archive.path.parent.exists()


@pytest.mark.usefixtures("builder")
def test_an_unknown_image_is_refused_with_the_known_ones() -> None:
    with pytest.raises(LabError, match="no image is called 'magic'; known are operator"):
        images.ensure("magic", Progress(io.StringIO()))


def test_images_need_root_or_docker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PD_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(LabError, match="needs root, or a running Docker"):
        images.base(Progress(io.StringIO()))


def test_the_build_command_prints_references_and_archives(
    builder: FakeBuilder, capsys: pytest.CaptureFixture[str]
) -> None:
    assert images.main_build([]) == 0
    assert images.main_build(["operator"]) == 0
    reference, path = ensure()
    assert capsys.readouterr().out == f"{reference}\t{path}\n" * 2
    assert len(builder.built) == 1


@pytest.mark.parametrize("name", images.IMAGES)
def test_every_listed_image_is_in_the_checkout(name: str) -> None:
    image = images.IMAGES[name]
    dockerfile = images.ROOT / image.dockerfile
    if image.program is None:
        assert build_context.from_checkout(dockerfile, images.ROOT / image.context).files
    assert ("ARG BASE=" in dockerfile.read_text()) == (image.packages is not None)


def test_with_docker_the_image_leaves_its_storage_once_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = tmp_path / "docker"
    client.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/calls\n')
    client.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    progress = Progress(io.StringIO())
    docker = builders.Docker()
    build = Build("localhost/x:1", Path("/context"), Path("/Dockerfile"), {}, {})
    docker.build(build, "Build", tmp_path / "x.log", progress)
    docker.save(build.reference, tmp_path / "x.tar", tmp_path / "x.log", progress)
    assert (tmp_path / "calls").read_text().splitlines() == [
        "build --tag=localhost/x:1 --file=/Dockerfile /context",
        f"save --output={tmp_path}/x.tar localhost/x:1",
        "image rm localhost/x:1",
    ]
