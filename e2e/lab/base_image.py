"""The base for Dockerfiles where no registry can be reached: Python from Debian packages, nothing else.

The packages are unpacked, not installed: their scripts do not run, which takes seconds instead of minutes. The few
things that the scripts would have done and that matter here are in `_DOCKERFILE`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from e2e.lab.builders import Build, Builder
from e2e.lab.files import write_public
from e2e.lab.progress import Progress

SUITE = "bookworm"
PACKAGES = (
    *("python3", "python3-venv", "ca-certificates", "base-files", "libc-bin"),
    *("bash", "dash", "coreutils", "findutils", "grep", "sed"),
)
_LEFT_OUT = ("/usr/share/doc/*", "/usr/share/man/*", "/usr/share/info/*", "/usr/share/locale/*")

_FILES = {
    # An unknown user id is an error for getpass.getuser(), which kopf and torch call.
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\nnonroot:x:65532:65532:nonroot:/tmp:/bin/sh\n",
    "etc/group": "root:x:0:\nnonroot:x:65532:\n",
    "etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files dns\n",
    "etc/pip.conf": "",  # a place to mount this machine's settings on during builds
}

_DOCKERFILE = """\
FROM scratch
ADD rootfs.tar /
COPY etc /etc
# What the packages' own scripts would do: trusted certificates, the loader's cache, Python's bytecode.
RUN mkdir -p /root /tmp /var/tmp && chmod 1777 /tmp /var/tmp \\
    && find /usr/share/ca-certificates -name '*.crt' -exec cat '{}' + > /etc/ssl/certs/ca-certificates.crt \\
    && ldconfig \\
    && python3 -m compileall -q --invalidation-mode unchecked-hash /usr/lib/python3*
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8
CMD ["python3"]
"""


def key(packages: Sequence[str]) -> str:
    """Identity of the base with `packages` on top of the usual ones. Package versions are the suite's latest."""
    recipe = json.dumps([SUITE, sorted({*PACKAGES, *packages}), _LEFT_OUT, _FILES, _DOCKERFILE])
    return hashlib.sha256(recipe.encode()).hexdigest()[:12]


def reference(packages: Sequence[str]) -> str:
    return f"localhost/pd-lab-python:{key(packages)}"


def ensure(packages: Sequence[str], builder: Builder, directory: Path, scratch: Path, progress: Progress) -> str:
    """Reference of the base image, in the builder's storage. The unpacked packages are kept in `directory`."""
    name = reference(packages)
    if builder.has(name):
        return name
    archive = directory / f"base-{key(packages)}.tar"
    if not archive.exists():
        _unpack(packages, scratch / archive.name, directory / "base.log", progress)
        (scratch / archive.name).rename(archive)
    context = scratch / "base"
    for path, content in _FILES.items():
        write_public(context / path, content.encode())
    write_public(context / "Dockerfile", _DOCKERFILE.encode())
    (context / "rootfs.tar").hardlink_to(archive)
    build = Build(name, context, context / "Dockerfile", {}, {})
    builder.build(build, "Make the base image", directory / "base.log", progress)
    return name


#: mmdebstrap starts Python once for every package: a version manager's stand-in on the path would take longer than the
#: packages do.
_SYSTEM_PATH = "/usr/sbin:/usr/bin:/sbin:/bin"


def command(packages: Sequence[str], archive: Path) -> list[str]:
    """`extract`: unpack without running the packages' scripts."""
    return [
        *("mmdebstrap", "--quiet", "--variant=extract", "--format=tar"),
        "--hook-dir=/usr/share/mmdebstrap/hooks/merged-usr",
        *(f"--dpkgopt=path-exclude={pattern}" for pattern in _LEFT_OUT),
        f"--include={','.join(sorted({*PACKAGES, *packages}))}",
        *(SUITE, str(archive)),
    ]


def _unpack(packages: Sequence[str], archive: Path, log: Path, progress: Progress) -> None:
    progress.run(
        f"Unpack {len({*PACKAGES, *packages})} Debian packages and what they need, for the base image",
        command(packages, archive),
        log=log,
        env={"TMPDIR": str(archive.parent), "PATH": _SYSTEM_PATH},
        fix="see the log; it needs Debian's package archive, through the network or the proxy in http_proxy",
    )
