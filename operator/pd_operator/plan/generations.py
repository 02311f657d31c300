"""Hashes that name generations: what needs new pods, and what needs both roles to change together.

Both hashes are taken over *values of the spec*, never over built objects: a new release of the operator may build the
same pod in another way (one more probe field, another order), and must not restart a fleet of GPU workers for that.
Two rules keep the hashes stable from release to release:

* Empty values (absent, empty text, list or object) are left out, so that a new optional field changes no hash.
* A new field with another default must be left out of the hash while it has that default.

`TEMPLATE_REVISION` is raised on purpose when a change of the builders has to reach running workers.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import EngineSpec, EnvVar, Model, PDInferenceServiceSpec, RDMARequirement, TransferBackend

TEMPLATE_REVISION: Final = 1

ROLES: Final = (labels.PREFILL, labels.DECODE)

#: Fields of a role that say how many workers there are, not what they are.
_COUNTS: Final = frozenset({"replicas", "min_replicas", "max_replicas"})

#: SGLang arguments that change neither the KV layout nor the protocol between the roles. Every other argument is
#: taken to do so: a pair that does not match ends the decode server at its first request.
_LOCAL_FLAGS: Final = frozenset(
    {
        "--chunked-prefill-size",
        "--cuda-graph-max-bs-decode",
        "--cuda-graph-max-bs-prefill",
        "--log-level",
        "--log-requests",
        "--max-prefill-tokens",
        "--max-running-requests",
        "--max-total-tokens",
        "--schedule-conservativeness",
        "--schedule-policy",
        "--sleep-on-idle",
        "--watchdog-timeout",
    }
)

#: Environment variables that do change it.
_PROTOCOL_ENVIRONMENT: Final = (
    "ASCEND_MF_",
    "ENABLE_ASCEND_TRANSFER",
    "MC_",
    "MOONCAKE_",
    "SGLANG_DISAGG",
    "SGLANG_MOONCAKE",
    "SGLANG_MORI",
    "UCX_",
)


@dataclass(frozen=True, slots=True)
class Generation:
    """One immutable pair of role templates.

    Attributes:
        hash: Names the generation; part of its StatefulSets' names.
        compat: Workers are paired only with workers of the same value.
    """

    hash: str
    compat: str


def generation_of(spec: PDInferenceServiceSpec) -> Generation:
    """The generation that `spec` describes."""
    return Generation(hash=_digest(_pod_inputs(spec)), compat=_digest(_pair_inputs(spec)))


def set_name(service: str, role: str, generation: str) -> str:
    """Name of the StatefulSet of one role of one generation."""
    return f"{service}-{role}-{generation}"


def router_name(service: str, compat: str) -> str:
    """Name of the router Deployment for one compat."""
    return f"{service}-router-{compat}"


def _pod_inputs(spec: PDInferenceServiceSpec) -> dict[str, Any]:
    """Everything that reaches a worker pod."""
    return {
        "revision": TEMPLATE_REVISION,
        "model": _values(spec.model),
        "engine": _values(spec.engine),
        "transfer": _values(spec.transfer),
        "roles": {
            role: _values(spec.prefill if role == labels.PREFILL else spec.decode, without=_COUNTS) for role in ROLES
        },
    }


def _pair_inputs(spec: PDInferenceServiceSpec) -> dict[str, Any]:
    """Everything that prefill and decode workers must agree on to hand over KV cache."""
    engine, transfer = spec.engine, spec.transfer
    return {
        "revision": TEMPLATE_REVISION,
        "model": spec.model.model_dump(
            mode="json",
            by_alias=True,
            exclude_none=True,
            # How the same weights are fetched.
            exclude={"source": {"hugging_face": {"token_secret_ref", "endpoint"}}},
        ),
        "engine": _engine_identity(engine),
        "pageSize": engine.page_size,
        "kvCacheDtype": engine.kv_cache_dtype,
        "contextLength": engine.context_length,
        "quantization": engine.quantization,
        "backend": transfer.backend.value,
        "tcp": transfer.backend == TransferBackend.MOONCAKE_TCP
        or transfer.rdma.requirement == RDMARequirement.DISABLED,
        "bootstrapPort": transfer.bootstrap_port,
        "args": _protocol_args(engine.args),
        "env": _protocol_environment(engine.env),
        "roles": {
            role: {
                "tensor": settings.parallelism.tensor,
                "pipeline": settings.parallelism.pipeline,
                "args": _protocol_args(settings.args),
                "env": _protocol_environment(settings.env),
            }
            for role, settings in ((labels.PREFILL, spec.prefill), (labels.DECODE, spec.decode))
        },
    }


def _engine_identity(engine: EngineSpec) -> str:
    """The SGLang version, or the whole image when its version cannot be told: it may hold any engine."""
    known = engine.version is not None or engine.resolved_version in engine.image.rsplit("/", 1)[-1]
    return engine.resolved_version if known else engine.image


def _protocol_args(args: tuple[str, ...]) -> list[str]:
    """`args` without local flags and their values."""
    kept: list[str] = []
    local = False
    for arg in args:
        if arg.startswith("--"):
            local = arg.split("=", 1)[0] in _LOCAL_FLAGS
        if not local:
            kept.append(arg)
    return kept


def _protocol_environment(env: tuple[EnvVar, ...]) -> list[dict[str, Any]]:
    return [_values(variable) for variable in env if variable.name.startswith(_PROTOCOL_ENVIRONMENT)]


def _values(model: Model, without: frozenset[str] = frozenset()) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True, exclude=set(without))


def digest(value: Any) -> str:
    """Eight hexadecimal digits over `value` as canonical JSON, exactly as it is."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True)
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _digest(value: Mapping[str, Any]) -> str:
    return digest(_without_empty(value))


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        kept = {key: _without_empty(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if item not in (None, "", [], {})}
    if isinstance(value, (list, tuple)):
        return [_without_empty(item) for item in value]
    return value
