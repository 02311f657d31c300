"""Environment variables of a worker."""

from __future__ import annotations

from typing import Any, Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import EnvVar, PDInferenceService, RDMARequirement, TransferBackend, TransferSpec
from pd_operator.plan.generations import set_name
from pd_operator.plan.objects import engine_command

#: The one place in a worker that may be written to besides `/tmp`: caches of weights and compiled kernels.
SCRATCH_MOUNT: Final = "/scratch"

_MOONCAKE: Final = (TransferBackend.MOONCAKE, TransferBackend.MOONCAKE_TCP)


def worker_environment(service: PDInferenceService, role: str, generation: str) -> list[dict[str, Any]]:
    """Variables of the operator, then of the engine, then of the role; of equal names the last one counts.

    Users may override every variable: the operator's are defaults that make a plain pod work.
    """
    variables = [
        *_identity(),
        *_files(),
        *_hub(service),
        *_transfer(service),
        *_ranks(service, role, generation),
        *(_variable(v) for v in service.spec.engine.env),
        *(_variable(v) for v in service.role(role).env),
    ]
    return list({variable["name"]: variable for variable in variables}.values())


def _identity() -> list[dict[str, Any]]:
    # What workers tell each other as their address. Without it SGLang takes HOST_IP or asks the routing table.
    return [_from_field("SGLANG_HOST_IP", "status.podIP")]


def _files() -> list[dict[str, Any]]:
    return [
        _literal("HOME", SCRATCH_MOUNT),
        _literal("SGLANG_CACHE_DIR", f"{SCRATCH_MOUNT}/sglang"),
    ]


def _hub(service: PDInferenceService) -> list[dict[str, Any]]:
    hub = service.spec.model.source.hugging_face
    if hub is None:
        return []
    variables: list[dict[str, Any]] = []
    if hub.token_secret_ref is not None:
        reference = {"name": hub.token_secret_ref.name, "key": hub.token_secret_ref.key}
        variables.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": reference}})
    if hub.endpoint is not None:
        variables.append(_literal("HF_ENDPOINT", hub.endpoint))
    return variables


def _transfer(service: PDInferenceService) -> list[dict[str, Any]]:
    """Settings of the transfer library, which reads them when it is loaded."""
    transfer = service.spec.transfer
    version = engine_command.parse_version(service.spec.engine.resolved_version)
    if not engine_command.uses_rdma(transfer):
        # `mooncake_tcp` sets this itself, where the backend exists.
        native = engine_command.backend(transfer, version) == "mooncake_tcp"
        return [_literal("MC_FORCE_TCP", "1")] if transfer.backend in _MOONCAKE and not native else []
    if transfer.backend == TransferBackend.MOONCAKE:
        # Without it Mooncake falls back to TCP when it sees no device, ten times slower and without a word.
        required = transfer.rdma.requirement == RDMARequirement.REQUIRED
        return [*([_literal("MC_FORCE_HCA", "1")] if required else []), *_fabric(transfer, "MC_GID_INDEX", "MC_IB_TC")]
    if transfer.backend == TransferBackend.NIXL:
        return _fabric(transfer, "UCX_IB_GID_INDEX", "UCX_IB_TRAFFIC_CLASS")
    return []


def _fabric(transfer: TransferSpec, gid_index: str, traffic_class: str) -> list[dict[str, Any]]:
    pairs = ((gid_index, transfer.rdma.gid_index), (traffic_class, transfer.rdma.traffic_class))
    return [_literal(name, str(value)) for name, value in pairs if value is not None]


def _ranks(service: PDInferenceService, role: str, generation: str) -> list[dict[str, Any]]:
    nodes = service.role(role).parallelism.nodes
    if nodes == 1:
        return []
    name = service.metadata.name
    return [
        _from_field("POD_INDEX", f"metadata.labels['{labels.POD_INDEX}']"),
        _literal("REPLICA_NODES", str(nodes)),
        _literal("SET_NAME", set_name(name, role, generation)),
        _literal("SET_DOMAIN", f"{name}-{role}.{service.metadata.namespace}.svc"),
    ]


def _literal(name: str, value: str) -> dict[str, Any]:
    return {"name": name, "value": value}


def _from_field(name: str, path: str) -> dict[str, Any]:
    return {"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}}


def _variable(variable: EnvVar) -> dict[str, Any]:
    if variable.value_from is not None:
        return {"name": variable.name, "valueFrom": variable.value_from}
    return {"name": variable.name, "value": variable.value or ""}


def container_environment(variables: tuple[EnvVar, ...]) -> list[dict[str, Any]]:
    """`variables` as a container has them; of equal names the last one counts."""
    return list({v.name: _variable(v) for v in variables}.values())
