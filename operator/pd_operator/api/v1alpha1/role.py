"""One role of the pair: how many workers, how each is split over accelerators, and its pod."""

from __future__ import annotations

from typing import Annotated

from pydantic import ConfigDict, Field

from pd_operator.api.v1alpha1.base import (
    MAX_REPLICAS,
    Args,
    Env,
    FreeObject,
    LabelValue,
    Model,
    Quantity,
    Resources,
    Seconds,
    StringMap,
    Text,
    message,
    nested,
    rules,
)
from pd_operator.api.v1alpha1.engine import ARGS_RULE

Replicas = Annotated[int, Field(ge=0, le=MAX_REPLICAS)]
Degree = Annotated[int, Field(ge=1, le=1024)]


class Parallelism(Model):
    """How one replica is split. A replica is `nodes` pods and `tensor × pipeline × data` accelerators."""

    tensor: Degree = 1
    """Tensor parallel size."""
    pipeline: Degree = 1
    """Pipeline parallel size."""
    data: Degree = 1
    """Data parallel size: copies of the model in one replica."""
    expert: Degree = 1
    """Expert parallel size."""
    nodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Pods that make one replica."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "(self.tensor * self.pipeline) % self.nodes == 0",
                message(
                    "parallelism.nodes %s does not divide tensor × pipeline = %s: choose nodes so that every pod has "
                    "the same number of ranks",
                    "self.nodes",
                    "self.tensor * self.pipeline",
                ),
                ".nodes",
            ),
            (
                "self.nodes == 1 || self.data == 1",
                message(
                    "parallelism.data %s cannot span %s nodes: set nodes to 1, or data to 1 and add replicas",
                    "self.data",
                    "self.nodes",
                ),
                ".data",
            ),
        )
    )


class Accelerator(Model):
    """The accelerators of each pod."""

    resource_name: Annotated[str, Field(pattern=r"^[a-z0-9.-]+/[A-Za-z0-9._-]+$", max_length=253)] = "nvidia.com/gpu"
    """Resource of the device plugin (`nvidia.com/gpu`, `amd.com/gpu`, `huawei.com/Ascend910`, …)."""
    count: Annotated[int, Field(ge=1, le=1024)] | None = None
    """Accelerators of each pod; default is tensor × pipeline × data / nodes."""
    type: LabelValue | None = None
    """Product name of the accelerator, a value of the node label `nvidia.com/gpu.product`; default is any."""


class ResourceRequirements(Model):
    """CPU, memory and other resources. The operator adds those of accelerators and RDMA devices."""

    requests: Resources = Field(default_factory=dict)
    """Guaranteed amounts."""
    limits: Resources = Field(default_factory=dict)
    """Upper limits."""


class PodOverlay(Model):
    """What a team adds to the pods: placement, identity, volumes."""

    labels: StringMap = Field(default_factory=dict)
    """More labels. Keys of the operator are refused."""
    annotations: StringMap = Field(default_factory=dict)
    """More annotations."""
    node_selector: StringMap = Field(default_factory=dict)
    """Node labels that are required."""
    tolerations: Annotated[tuple[FreeObject, ...], Field(max_length=32)] = ()
    """Tolerations, as in a pod."""
    affinity: FreeObject | None = None
    """Affinity, as in a pod."""
    priority_class_name: Text | None = None
    """PriorityClass."""
    scheduler_name: Text | None = None
    """Scheduler; default is the cluster's."""
    runtime_class_name: Text | None = None
    """RuntimeClass."""
    host_network: bool = False
    """Use the node's network (RDMA without a device plugin); one worker of a role fits a node then."""
    image_pull_secrets: Annotated[tuple[Text, ...], Field(max_length=16)] = ()
    """Names of Secrets for pulling images."""
    service_account_name: Text | None = None
    """ServiceAccount; default is the namespace's default with no token mounted."""
    security_context: FreeObject | None = None
    """Pod security context; keys given here win over the operator's (`seccompProfile: RuntimeDefault`)."""
    container_security_context: FreeObject | None = None
    """Container security context; keys given here win over the operator's (no escalation, all capabilities dropped)."""
    volumes: Annotated[tuple[FreeObject, ...], Field(max_length=32)] = ()
    """More volumes, as in a pod."""
    volume_mounts: Annotated[tuple[FreeObject, ...], Field(max_length=32)] = ()
    """More volume mounts of the main container."""
    init_containers: Annotated[tuple[FreeObject, ...], Field(max_length=8)] = ()
    """Init containers, as in a pod."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.labels) || self.labels.all(k, !k.startsWith('pdinference.dev/') && "
                "!k.startsWith('app.kubernetes.io/'))",
                message(
                    "pod.labels: %s belongs to the operator: use another prefix",
                    "self.labels.filter(k, k.startsWith('pdinference.dev/') || k.startsWith('app.kubernetes.io/'))",
                ),
                ".labels",
            )
        )
    )


class RoleSpec(Model):
    """Workers of one role."""

    replicas: Replicas = 1
    """Replicas in Manual mode; the number to start from in SLO mode; not used in FixedRatio mode."""
    min_replicas: Replicas = 1
    """Fewest replicas in SLO mode."""
    max_replicas: Replicas | None = None
    """Most replicas in SLO mode; default is what the budget allows."""
    parallelism: Parallelism = nested(Parallelism)
    """How one replica is split over accelerators and pods."""
    accelerator: Accelerator = nested(Accelerator)
    """Accelerators of each pod."""
    resources: ResourceRequirements = nested(ResourceRequirements)
    """CPU and memory of each pod."""
    shared_memory: Quantity = "16Gi"
    """Size limit of `/dev/shm`, which counts as the pod's memory."""
    args: Args = ()
    """More SGLang arguments for this role, after those of `engine.args`."""
    env: Env = ()
    """More environment variables for this role; they win over those of `engine.env`."""
    startup_timeout_seconds: Annotated[int, Field(ge=30, le=86_400)] = 3600
    """How long loading may take before the container is restarted."""
    drain_timeout_seconds: Seconds = 300
    """How long a worker that is to go may finish its requests."""
    pod: PodOverlay = nested(PodOverlay)
    """Additions to the pods."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
                message(
                    "minReplicas %s is above maxReplicas %s: lower minReplicas or raise maxReplicas",
                    "self.minReplicas",
                    "self.maxReplicas",
                ),
                ".minReplicas",
            ),
            ARGS_RULE,
        )
    )

    @property
    def accelerators_per_pod(self) -> int:
        """Accelerators that each pod requests."""
        p = self.parallelism
        return self.accelerator.count or max(1, p.tensor * p.pipeline * p.data // p.nodes)

    @property
    def accelerators_per_replica(self) -> int:
        """Accelerators that one replica (all its pods) requests."""
        return self.accelerators_per_pod * self.parallelism.nodes
