"""The project's container images as archive files, built from their Dockerfiles without a registry.

An image's tag is a hash of everything that goes into it, so a changed source gives a changed image, and an unchanged
one is never built again, in any clone.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from e2e.lab import base_image, binaries, build_context, cache, debian, package_index
from e2e.lab.build_context import BuildContext
from e2e.lab.builders import Build, Buildah, Builder, Docker, docker_answers
from e2e.lab.errors import LabError
from e2e.lab.progress import Progress

ROOT = Path(__file__).resolve().parents[2]
KEPT_VERSIONS = 2
"""Archives of one image that stay in the cache."""


class Archive(NamedTuple):
    """An image to import: its name in a container runtime, and the docker-archive file that has it."""

    reference: str
    path: Path


@dataclass(frozen=True, slots=True)
class Image:
    """How one image is made; paths are relative to the checkout."""

    dockerfile: str
    context: str
    packages: tuple[str, ...] | None = ()
    """Debian packages in the base besides Python; None for an image that has no base."""

    program: str | None = None
    """A program of `binaries` that is the whole context."""


IMAGES = {
    "operator": Image("operator/Dockerfile", "."),
    "router": Image("router_image/Dockerfile", "router_image"),
    "sglang-cpu": Image(
        "e2e/sglang_cpu/Dockerfile",
        "e2e/sglang_cpu",
        ("libcurl4", "libibverbs1", "libnl-route-3-200", "libnuma1", "libstdc++6", "util-linux"),
    ),
    "pause": Image("e2e/lab/gomod/pause/Dockerfile", ".", None, program="pause"),
}


def ensure(name: str, progress: Progress) -> Archive:
    """The archive of image `name`, built first when this version of it is not in the cache.

    Raises LabError for an unknown name, and when the image cannot be built here.
    """
    try:
        image = IMAGES[name]
    except KeyError:
        raise LabError(f"no image is called {name!r}; known are {', '.join(IMAGES)}") from None
    context = _context(image, progress)
    with_docker = _with_docker()
    version = _version(image, context, with_docker=with_docker)
    directory = cache.root() / "images"
    archive = Archive(f"localhost/pd-{name}:{version}", directory / version / f"{name}.tar")
    if archive.path.exists():
        os.utime(archive.path)
        return archive
    with _builder(directory, progress, with_docker=with_docker) as (builder, scratch):
        if not archive.path.exists():
            _build(name, image, context, archive, builder, scratch, progress)
            builder.remove(_prune(name, directory))
    return archive


def base(progress: Progress) -> str:
    """The plain Python base in the cache's image storage; returns its reference. Builds make it when they need it."""
    directory = cache.root() / "images"
    with _builder(directory, progress, with_docker=False) as (builder, scratch):
        return base_image.ensure((), builder, directory, scratch, progress)


def prune_all(*, archives: bool = False) -> None:
    """Removes the image storage with every image and layer in it; with `archives` the cached files too."""
    directory = cache.root() / "images"
    if not directory.exists():
        return
    with cache.locked(directory, lambda: None):
        shutil.rmtree(directory / "storage", ignore_errors=True)
        if archives:
            for path in [*directory.glob("*/*.tar"), *directory.glob("base-*.tar")]:
                path.unlink()
            for path in directory.iterdir():
                if path.is_dir() and not any(path.iterdir()):
                    path.rmdir()


def main_build(argv: Sequence[str]) -> int:
    """`build [NAME …]`: makes images, all of them without a name, and prints each reference and archive."""
    parser = argparse.ArgumentParser(prog="python -m e2e.lab build", description=main_build.__doc__)
    parser.add_argument("names", nargs="*", choices=[*IMAGES, []], default=[], metavar="NAME", help=", ".join(IMAGES))
    names: list[str] = parser.parse_args(argv).names or list(IMAGES)
    progress = Progress()
    for name in names:
        archive = ensure(name, progress)
        print(f"{archive.reference}\t{archive.path}")
    return 0


def _context(image: Image, progress: Progress) -> BuildContext:
    dockerfile = ROOT / image.dockerfile
    if not dockerfile.exists():
        raise LabError(f"{dockerfile} does not exist; restore it from git")
    if image.program is None:
        return build_context.from_checkout(dockerfile, ROOT / image.context)
    program = binaries.ensure([image.program], progress)[image.program]
    return BuildContext(program.parent, dockerfile, (Path(program.name),))


def _version(image: Image, context: BuildContext, *, with_docker: bool) -> str:
    """Twelve hexadecimal digits that stand for everything that goes into the image."""
    base_key = None if image.packages is None or with_docker else base_image.key(image.packages)
    recipe = json.dumps([context.digest(), base_key, "docker" if with_docker else "buildah"])
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


def _with_docker() -> bool:
    return not debian.is_there("buildah") and docker_answers()


@contextmanager
def _builder(directory: Path, progress: Progress, *, with_docker: bool) -> Iterator[tuple[Builder, Path]]:
    """A builder and a scratch folder, for one process at a time. Raises LabError when there is no builder."""
    if not with_docker:
        if os.geteuid() != 0:
            raise LabError("building images needs root, or a running Docker; run this as root or start Docker")
        debian.ensure(debian.IMAGES, progress)
    busy = "Another process builds images; waiting for it …"
    with cache.locked(directory, lambda: progress.say(busy)), cache.scratch(directory) as scratch:
        if with_docker:
            yield Docker(), scratch
        else:
            buildah = Buildah(directory / "storage", scratch)
            buildah.remove_working_containers()
            yield buildah, scratch


def _build(
    name: str,
    image: Image,
    context: BuildContext,
    archive: Archive,
    builder: Builder,
    scratch: Path,
    progress: Progress,
) -> None:
    log = archive.path.parent.parent / f"{name}.log"
    arguments = {}
    if image.packages is not None and builder.local_base:
        directory = archive.path.parent.parent
        arguments["BASE"] = base_image.ensure(image.packages, builder, directory, scratch, progress)
    context.copy_to(scratch / "context")
    mounts = package_index.of_this_machine().mounts(scratch) if image.packages is not None else {}
    build = Build(archive.reference, scratch / "context", context.dockerfile, arguments, mounts)
    builder.build(build, f"Build image {name} ({archive.reference})", log, progress)
    builder.save(archive.reference, scratch / archive.path.name, log.with_name("save.log"), progress)
    archive.path.parent.mkdir(exist_ok=True)
    (scratch / archive.path.name).rename(archive.path)


def _prune(name: str, directory: Path) -> list[str]:
    """Removes old archives of an image; returns their references."""
    removed = cache.keep_newest(list(directory.glob(f"*/{name}.tar")), KEPT_VERSIONS)
    for path in removed:
        path.parent.rmdir()
    return [f"localhost/pd-{name}:{path.parent.name}" for path in removed]
