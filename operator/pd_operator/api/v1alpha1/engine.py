"""What is served and by which engine: model, engine, KV transfer."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final

from pydantic import ConfigDict, Field

from pd_operator.api.v1alpha1.base import Args, Env, Model, Port, SecretKeyRef, Text, message, nested, rules

DEFAULT_IMAGE: Final = "lmsysorg/sglang:v0.5.23"
DEFAULT_VERSION: Final = "0.5.23"

#: Flags that the operator sets itself, and the field that sets each. SGLang accepts abbreviations
#: (argparse prefix matching), so an argument that any of these starts with is refused too.
OWNED_FLAGS: Final[dict[str, str]] = {
    "--model-path": "model.name",
    "--served-model-name": "model.servedName",
    "--revision": "model.source.huggingFace.revision",
    "--host": "nothing: the operator sets it",
    "--port": "nothing: the operator sets it",
    "--disaggregation-mode": "nothing: the operator sets it per role",
    "--disaggregation-transfer-backend": "transfer.backend",
    "--disaggregation-bootstrap-port": "transfer.bootstrapPort",
    "--disaggregation-ib-device": "transfer.rdma.devices",
    "--page-size": "engine.pageSize",
    "--kv-cache-dtype": "engine.kvCacheDtype",
    "--context-length": "engine.contextLength",
    "--quantization": "engine.quantization",
    "--mem-fraction-static": "engine.memFractionStatic",
    "--tensor-parallel-size": "parallelism.tensor",
    "--tp-size": "parallelism.tensor",
    "--pipeline-parallel-size": "parallelism.pipeline",
    "--pp-size": "parallelism.pipeline",
    "--data-parallel-size": "parallelism.data",
    "--dp-size": "parallelism.data",
    "--expert-parallel-size": "parallelism.expert",
    "--ep-size": "parallelism.expert",
    "--nnodes": "parallelism.nodes",
    "--node-rank": "nothing: the operator sets it per pod",
    "--dist-init-addr": "nothing: the operator sets it",
    "--nccl-init-addr": "nothing: the operator sets it",
    "--enable-metrics": "nothing: metrics are always on",
    "--config": "args: a file could set any of these flags",
}


def owned_flag(arg: str) -> str | None:
    """The owned flag that `arg` sets or abbreviates, if any: `--tp=2`, `--tp 2` and `--tp` name `--tp-size`."""
    if len(arg) <= 2 or not arg.startswith("--"):
        return None
    head = arg.split("=", 1)[0].split(" ", 1)[0]
    return next((flag for flag in OWNED_FLAGS if flag == head), None) or next(
        (flag for flag in OWNED_FLAGS if flag.startswith(head)), None
    )


_FLAG_LIST = "[" + ", ".join(f"'{flag}'" for flag in OWNED_FLAGS) + "]"
_IS_OWNED = f"a.startsWith('--') && size(a) > 2 && {_FLAG_LIST}.exists(f, f.startsWith(a.split('=')[0].split(' ')[0]))"
#: The same rule as `owned_flag` in CEL, over a list `self.args`.
ARGS_RULE: Final = (
    f"!has(self.args) || self.args.all(a, !({_IS_OWNED}))",
    message(
        "args: %s is set by the operator: remove it and use the field for it (see kubectl explain pdinf.spec)",
        f"self.args.filter(a, {_IS_OWNED})",
    ),
    ".args",
)


class SourceType(StrEnum):
    HUGGING_FACE = "HuggingFace"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    HOST_PATH = "HostPath"


class HuggingFaceSource(Model):
    """Weights from the Hugging Face hub."""

    token_secret_ref: SecretKeyRef | None = None
    """Secret key that holds the access token of a gated model."""
    revision: Text | None = None
    """Branch, tag or commit of the model repository."""
    endpoint: Text | None = None
    """Address of a mirror (`HF_ENDPOINT`)."""


class ClaimSource(Model):
    """Weights on a PersistentVolumeClaim; `model.name` is the path below its mount point `/models`, or `/models/…`."""

    claim_name: Text
    """Name of the claim in the same namespace; every worker mounts it."""
    sub_path: Annotated[str, Field(max_length=1024)] | None = None
    """Folder of the volume that is mounted instead of its root."""
    read_only: bool = True
    """Mount read-only."""


class HostPathSource(Model):
    """Weights in a folder of every node."""

    path: Annotated[str, Field(pattern=r"^/", max_length=1024)]
    """Absolute path on the node, mounted read-only at `/models`."""


class ModelSource(Model):
    """Where the weights come from. Exactly the member named by `type` may be set."""

    type: SourceType = SourceType.HUGGING_FACE
    """Kind of source."""
    hugging_face: HuggingFaceSource | None = None
    """Settings of `type: HuggingFace`."""
    persistent_volume_claim: ClaimSource | None = None
    """Settings of `type: PersistentVolumeClaim`."""
    host_path: HostPathSource | None = None
    """Settings of `type: HostPath`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(self.type == 'HuggingFace' || !has(self.huggingFace)) && "
                "(self.type == 'PersistentVolumeClaim') == has(self.persistentVolumeClaim) && "
                "(self.type == 'HostPath') == has(self.hostPath)",
                "cel:'model.source.type is ' + self.type + ': set the member of that name (persistentVolumeClaim or "
                "hostPath), and no other member'",
            )
        )
    )


class ModelSpec(Model):
    """The model that is served."""

    name: Annotated[str, Field(min_length=1, max_length=512, pattern=r"^[^\s:]+$")]
    """Hugging Face style id (`org/model`), or an absolute path inside the worker (in the image or a mounted volume)."""
    served_name: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[^\s:]+$")] | None = None
    """Name that clients use; default is the last part of `name`. It must not contain a colon (SGLang refuses it)."""
    source: ModelSource = nested(ModelSource)
    """Where the weights come from."""

    @property
    def client_name(self) -> str:
        """The name that clients send in their requests."""
        return self.served_name or self.name.rstrip("/").rsplit("/", 1)[-1]


class PullPolicy(StrEnum):
    ALWAYS = "Always"
    IF_NOT_PRESENT = "IfNotPresent"
    NEVER = "Never"


class EngineSpec(Model):
    """SGLang: image, and what both roles must have in common, since a mismatch ends decode servers."""

    image: Annotated[str, Field(min_length=1, max_length=512)] = DEFAULT_IMAGE
    """Image of the workers."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When the image is pulled."""
    version: Annotated[str, Field(pattern=r"^[0-9]+\.[0-9]+\.[0-9]+([.+-].*)?$", max_length=64)] | None = None
    """SGLang version inside the image; default is read from the image tag (`v0.5.23…`), else 0.5.23."""
    args: Args = ()
    """More SGLang arguments for both roles. Arguments that the operator owns are refused."""
    env: Env = ()
    """More environment variables for both roles."""
    page_size: Annotated[int, Field(ge=1, le=1024)] = 64
    """Tokens in one KV cache page. Always passed: SGLang's automatic choice may differ between the roles."""
    kv_cache_dtype: Annotated[str, Field(pattern=r"^[a-z0-9_]+$", max_length=32)] = "auto"
    """KV cache data type as SGLang names it (`auto`, `fp8_e4m3`, `bf16`, …)."""
    context_length: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Longest context in tokens; default is the model's own."""
    quantization: Annotated[str, Field(pattern=r"^[a-z0-9_-]+$", max_length=64)] | None = None
    """Quantization method as SGLang names it (`fp8`, `awq`, …); default is the model's own."""
    mem_fraction_static: Annotated[str, Field(pattern=r"^0\.[0-9]{1,4}$")] | None = None
    """Part of accelerator memory for weights and KV cache, a decimal between 0 and 1 as text (`"0.85"`)."""

    model_config = ConfigDict(json_schema_extra=rules(ARGS_RULE))

    @property
    def resolved_version(self) -> str:
        """The SGLang version: the field, else the image tag, else the version this release was made for."""
        if self.version:
            return self.version
        tag = self.image.rsplit(":", 1)[-1] if ":" in self.image.rsplit("/", 1)[-1] else ""
        match = re.match(r"v?([0-9]+\.[0-9]+\.[0-9]+)", tag)
        return match.group(1) if match else DEFAULT_VERSION


class TransferBackend(StrEnum):
    MOONCAKE = "Mooncake"
    NIXL = "NIXL"
    MORI = "MoRI"
    ASCEND = "Ascend"
    MOONCAKE_TCP = "MooncakeTCP"


class RDMARequirement(StrEnum):
    REQUIRED = "Required"
    PREFERRED = "Preferred"
    DISABLED = "Disabled"


class RDMASpec(Model):
    """RDMA devices for KV transfer."""

    requirement: RDMARequirement = RDMARequirement.PREFERRED
    """`Required`: a worker without usable RDMA fails loudly. `Preferred`: used when it is there. `Disabled`: TCP."""
    resource_name: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253)] | None = None
    """Resource of the RDMA device plugin (`rdma/hca`, …); requested by every worker pod."""
    count: Annotated[int, Field(ge=1, le=64)] = 1
    """How many of `resourceName` each pod requests."""
    devices: Annotated[str, Field(pattern=r"^[A-Za-z0-9_]+(,[A-Za-z0-9_]+)*$", max_length=512)] | None = None
    """Device names for KV transfer (`mlx5_0,mlx5_1`); default is SGLang's own discovery."""
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """GID index (RoCE v2 is often 3); default is the library's choice."""
    traffic_class: Annotated[int, Field(ge=0, le=255)] | None = None
    """InfiniBand traffic class; default is the library's choice."""


class TransferSpec(Model):
    """How KV cache moves from prefill to decode workers."""

    backend: TransferBackend = TransferBackend.MOONCAKE
    """Transfer engine; `MooncakeTCP` needs no RDMA."""
    rdma: RDMASpec = nested(RDMASpec)
    """RDMA devices."""
    bootstrap_port: Port = 8998
    """Port on which prefill leaders hand out their address book; the same on both roles."""
