"""Real nodes as the API server sees them: what they advertise, when they are ready, and images on them."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import subprocess
import tarfile
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from e2e.lab.api import Api, ApiError, Object
from e2e.lab.errors import LabError
from e2e.lab.fake_nodes import (
    FAKE_TYPE,
    GPU,
    GPU_PRODUCT,
    GPUS_PER_NODE,
    HCAS_PER_NODE,
    PRODUCT_LABEL,
    RDMA,
    REGION,
    REGION_LABEL,
    TYPE_LABEL,
    ZONE_LABEL,
    ZONES,
    is_ready,
)
from e2e.lab.host import search_path
from e2e.lab.node_components import KUBELET, of_node
from e2e.lab.processes import wait_until
from e2e.lab.runtime import Runtime
from e2e.lab.spec import node_name

CTR = ("ctr", "--namespace=k8s.io")
READY_TIMEOUT_SECONDS = 60.0
PARALLEL_IMPORTS = 2
"""An import is bound by decompression and the disk; more at once only take turns."""


def labels(node: int) -> dict[str, str]:
    return {REGION_LABEL: REGION, ZONE_LABEL: ZONES[node % len(ZONES)], PRODUCT_LABEL: GPU_PRODUCT}


def advertise(api: Api, node: int) -> None:
    """Gives a node accelerators and RDMA devices that it lacks, so pods may ask for them as on a GPU machine.

    A kubelet that starts sets such resources to zero, so this follows every start of one.
    """
    path = f"/api/v1/nodes/{node_name(node)}"
    extended = {GPU: str(GPUS_PER_NODE), RDMA: str(HCAS_PER_NODE)}
    api.merge(path, {"metadata": {"labels": labels(node)}})
    api.merge(f"{path}/status", {"status": {"capacity": extended, "allocatable": extended}})


def remove_surplus(api: Api, count: int) -> None:
    """Deletes Node objects of real nodes that an earlier, larger run of the lab had: their pods would stay for ever."""
    wanted = {node_name(node) for node in range(count)}
    for item in api.items(f"/api/v1/nodes?labelSelector={TYPE_LABEL}%21%3D{FAKE_TYPE}"):
        if item["metadata"]["name"] not in wanted:
            api.delete(f"/api/v1/nodes/{item['metadata']['name']}")


def now() -> str:
    """The present as the API server writes it, to compare with what nodes reported."""
    return datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def wait_ready(runtime: Runtime, api: Api, since: str) -> None:
    """Waits until every real node is Ready, by a report that is not older than `since` (RFC 3339, UTC).

    After a restart the API server still has the reports of the run before, which say Ready, too.
    """
    for node in runtime.spec.node_indexes:
        wait_until(
            partial(_reported_ready, api, node, since),
            what=f"node {node_name(node)}",
            timeout=READY_TIMEOUT_SECONDS,
            log=runtime.spec.log(of_node(KUBELET, node)),
        )
        advertise(api, node)


def load(runtime: Runtime, archive: Path, nodes: list[int]) -> None:
    """Imports a docker-archive into the given nodes' container runtimes, where it is not there already."""
    reference, image_id = contents(archive)
    lacking = [
        node for node in nodes if not is_listed(_ctr(runtime, node, "images", "list").stdout, reference, image_id)
    ]
    with ThreadPoolExecutor(PARALLEL_IMPORTS) as pool:
        list(pool.map(partial(_import, runtime, archive), lacking))


def tag(runtime: Runtime, reference: str, alias: str, nodes: list[int]) -> None:
    """Gives an image that is in the nodes' container runtimes a second name."""
    for node in nodes:
        done = _ctr(runtime, node, "images", "tag", "--force", reference, alias)
        if done.returncode != 0:
            raise LabError(f"{reference} could not be tagged {alias} on {node_name(node)}: {done.stderr.strip()}")


def contents(archive: Path) -> tuple[str, str]:
    """Reference and id of the one image in a docker-archive. Raises LabError when it is something else."""
    try:
        with tarfile.open(archive) as tar:
            (image,) = json.loads(_member(tar, "manifest.json"))
            digest = hashlib.sha256(_member(tar, image["Config"])).hexdigest()
        return str(image["RepoTags"][0]), f"sha256:{digest}"
    except (OSError, tarfile.TarError, ValueError, KeyError, TypeError, IndexError) as error:
        raise LabError(
            f"{archive} is not a docker-archive of one tagged image ({error}); `docker save` makes one"
        ) from error


def _member(tar: tarfile.TarFile, name: str) -> bytes:
    file = tar.extractfile(name)
    return file.read() if file else b""


def is_listed(listing: str, reference: str, image_id: str) -> bool:
    """Whether the output of `ctr images list` has this very image by this name: both must mean one manifest."""
    manifests = {line.split()[0]: line.split()[2] for line in listing.splitlines()[1:]}
    return reference in manifests and manifests[reference] == manifests.get(image_id)


def runtime_answers(runtime: Runtime, node: int) -> bool:
    return _ctr(runtime, node, "version").returncode == 0


def _import(runtime: Runtime, archive: Path, node: int) -> None:
    done = _ctr(runtime, node, "images", "import", str(archive))
    if done.returncode != 0:
        raise LabError(f"{archive} could not be imported into {node_name(node)}: {done.stderr.strip()}")


def _ctr(runtime: Runtime, node: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*runtime.enter(node), *CTR, *arguments],
        capture_output=True,
        text=True,
        env={**os.environ, "PATH": search_path()},
        check=False,
    )


def _reported_ready(api: Api, node: int, since: str) -> bool:
    try:
        item: Object = api.get(f"/api/v1/nodes/{node_name(node)}")
    except ApiError:
        return False  # the kubelet has not registered it yet
    conditions = item["status"].get("conditions", [])
    heartbeat = next((c["lastHeartbeatTime"] for c in conditions if c["type"] == "Ready"), "")
    return is_ready(item) and heartbeat >= since
