"""The command line of one SGLang worker.

Only full, current flag names: SGLang accepts abbreviations, and some of them became ambiguous between releases.
"""

from __future__ import annotations

import re
from typing import Final

from pd_operator.api.v1alpha1 import (
    ModelSpec,
    PDInferenceService,
    RDMARequirement,
    SourceType,
    TransferBackend,
    TransferSpec,
)
from pd_operator.plan.objects import ports

#: Where a volume with weights is mounted.
MODEL_MOUNT: Final = "/models"

#: `mooncake_tcp` is a backend of its own from this release on; before, an environment variable forces TCP.
MOONCAKE_TCP_SINCE: Final = (0, 5, 15)

_BACKENDS: Final = {
    TransferBackend.MOONCAKE: "mooncake",
    TransferBackend.NIXL: "nixl",
    TransferBackend.MORI: "mori",
    TransferBackend.ASCEND: "ascend",
    TransferBackend.MOONCAKE_TCP: "mooncake_tcp",
}

#: Upper bounds in seconds of the time-to-first-token histogram. SGLang's own begin at 0.1, 0.2, 0.4: too coarse for
#: an SLO of a few hundred milliseconds. Always passed, so that editing an SLO restarts no worker.
_TTFT_BUCKETS: Final = (
    *("0.01", "0.02", "0.03", "0.05", "0.075", "0.1", "0.15", "0.2", "0.3", "0.4", "0.6", "0.8"),
    *("1", "1.5", "2", "3", "4", "6", "8", "10", "15", "20", "30", "60", "120", "300"),
)

#: Starts one rank of a multi-node replica. A pod learns its ordinal from a label, but Kubernetes can do no arithmetic
#: on it. `exec`, so that SIGTERM reaches the engine and no shell.
_RANK_SCRIPT: Final = (
    "rank=$((POD_INDEX % REPLICA_NODES)); leader=$((POD_INDEX - rank)); "
    'exec sglang serve "$@" --nnodes "$REPLICA_NODES" --node-rank "$rank" '
    f'--dist-init-addr "$SET_NAME-$leader.$SET_DOMAIN:{ports.RENDEZVOUS}"'
)


def command(service: PDInferenceService, role: str) -> list[str]:
    """The container's command."""
    if service.role(role).parallelism.nodes == 1:
        return ["sglang", "serve"]
    return ["sh", "-c", _RANK_SCRIPT, "sglang"]


def arguments(service: PDInferenceService, role: str) -> list[str]:
    """The container's arguments: the operator's, then those of the engine, then those of the role."""
    spec, settings = service.spec, service.role(role)
    parallelism = settings.parallelism
    version = parse_version(spec.engine.resolved_version)
    source = spec.model.source
    return [
        *("--model-path", model_path(spec.model)),
        *("--served-model-name", spec.model.client_name),
        *_flag("--revision", source.hugging_face.revision if source.hugging_face else None),
        *("--host", "0.0.0.0", "--port", str(ports.ENGINE_HTTP)),
        *("--disaggregation-mode", role),
        *("--disaggregation-transfer-backend", backend(spec.transfer, version)),
        *("--disaggregation-bootstrap-port", str(spec.transfer.bootstrap_port)),
        *_flag("--disaggregation-ib-device", rdma_devices(spec.transfer)),
        *("--page-size", str(spec.engine.page_size)),
        *("--kv-cache-dtype", spec.engine.kv_cache_dtype),
        *_flag("--context-length", spec.engine.context_length),
        *_flag("--quantization", spec.engine.quantization),
        *_flag("--mem-fraction-static", spec.engine.mem_fraction_static),
        *_degree("--tp-size", parallelism.tensor),
        *_degree("--pp-size", parallelism.pipeline),
        *_degree("--dp-size", parallelism.data),
        *_degree("--ep-size", parallelism.expert),
        "--enable-metrics",
        *("--bucket-time-to-first-token", *_TTFT_BUCKETS),
        *spec.engine.args,
        *settings.args,
    ]


def model_path(model: ModelSpec) -> str:
    """Where the engine finds the weights: a hub id, or a path inside the container."""
    on_volume = model.source.type in (SourceType.PERSISTENT_VOLUME_CLAIM, SourceType.HOST_PATH)
    if on_volume and not model.name.startswith("/"):
        return f"{MODEL_MOUNT}/{model.name}"
    return model.name


def backend(transfer: TransferSpec, version: tuple[int, int, int]) -> str:
    """The transfer backend as this SGLang version spells it."""
    if transfer.backend == TransferBackend.MOONCAKE_TCP and version < MOONCAKE_TCP_SINCE:
        return _BACKENDS[TransferBackend.MOONCAKE]
    return _BACKENDS[transfer.backend]


def uses_rdma(transfer: TransferSpec) -> bool:
    """Whether workers may use RDMA devices."""
    return transfer.rdma.requirement != RDMARequirement.DISABLED and transfer.backend != TransferBackend.MOONCAKE_TCP


def rdma_devices(transfer: TransferSpec) -> str | None:
    """Device names to pass; SGLang ends at once when it is given a name that does not exist."""
    return transfer.rdma.devices if uses_rdma(transfer) else None


def parse_version(text: str) -> tuple[int, int, int]:
    """The first three numbers of a version; (0, 0, 0) when it does not begin with three."""
    match = re.match(r"(\d+)\.(\d+)\.(\d+)", text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)


def _flag(name: str, value: str | int | None) -> tuple[str, ...]:
    return () if value is None else (name, str(value))


def _degree(name: str, value: int) -> tuple[str, ...]:
    return (name, str(value)) if value > 1 else ()
