"""Images in archive files and on real nodes."""

from __future__ import annotations

import hashlib
import io
import json
import tarfile
from pathlib import Path

import pytest

from e2e.lab import real_nodes
from e2e.lab.errors import LabError

CONFIG = b'{"architecture": "amd64"}'


def archive(folder: Path, manifest: object) -> Path:
    path = folder / "image.tar"
    with tarfile.open(path, "w") as tar:
        for name, content in (("config.json", CONFIG), ("manifest.json", json.dumps(manifest).encode())):
            entry = tarfile.TarInfo(name)
            entry.size = len(content)
            tar.addfile(entry, io.BytesIO(content))
    return path


def test_an_archive_tells_its_reference_and_the_id_that_nodes_know_it_by(tmp_path: Path) -> None:
    path = archive(tmp_path, [{"Config": "config.json", "RepoTags": ["localhost/x:1"], "Layers": []}])
    assert real_nodes.contents(path) == ("localhost/x:1", f"sha256:{hashlib.sha256(CONFIG).hexdigest()}")


@pytest.mark.parametrize(
    "manifest",
    [
        [],
        [{"Config": "config.json", "RepoTags": []}],
        [{"Config": "config.json", "RepoTags": None}],
        [{"Config": "absent.json", "RepoTags": ["localhost/x:1"]}],
        {"Config": "config.json"},
    ],
)
def test_an_archive_of_anything_else_is_refused_with_what_makes_one(tmp_path: Path, manifest: object) -> None:
    with pytest.raises(LabError, match="docker save"):
        real_nodes.contents(archive(tmp_path, manifest))


def test_a_file_that_is_no_archive_is_named(tmp_path: Path) -> None:
    path = tmp_path / "image.tar"
    path.write_text("not a tar")
    with pytest.raises(LabError, match=r"image\.tar is not a docker-archive"):
        real_nodes.contents(path)


NODES_LIST = """\
REF TYPE DIGEST SIZE PLATFORMS LABELS
localhost/x:1 application/vnd.oci.image.manifest.v1+json sha256:aaaa 65.3 MiB linux/amd64 -
sha256:1111   application/vnd.oci.image.manifest.v1+json sha256:aaaa 65.3 MiB linux/amd64 managed
sha256:2222   application/vnd.oci.image.manifest.v1+json sha256:bbbb 65.3 MiB linux/amd64 managed
"""


@pytest.mark.parametrize(
    ("reference", "image_id", "there"),
    [
        ("localhost/x:1", "sha256:1111", True),
        ("localhost/x:1", "sha256:2222", False),  # the name stands for an older image of the same tag
        ("localhost/x:1", "sha256:3333", False),
        ("localhost/y:1", "sha256:1111", False),
    ],
)
def test_an_image_is_there_when_name_and_id_stand_for_the_same(reference: str, image_id: str, there: bool) -> None:
    assert real_nodes.is_listed(NODES_LIST, reference, image_id) is there
