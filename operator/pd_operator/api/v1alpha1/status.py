"""What the operator reports. Written once per reconcile, only when something changed."""

from __future__ import annotations

from datetime import datetime
from enum import StrEnum
from typing import Annotated

from pydantic import Field, PlainSerializer

from pd_operator.api.v1alpha1.base import Model, list_map


def _rfc3339(moment: datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")


Time = Annotated[datetime, PlainSerializer(_rfc3339, return_type=str)]
"""A moment in UTC, to the second, as Kubernetes writes it."""

Count = Annotated[int, Field(ge=0)]
ShortText = Annotated[str, Field(max_length=256)]
Message = Annotated[str, Field(max_length=1024)]


class ConditionStatus(StrEnum):
    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


class Condition(Model):
    """One aspect of the state, in the form of `metav1.Condition`."""

    type: Annotated[str, Field(max_length=64)]
    """Aspect."""
    status: ConditionStatus
    """Whether it holds."""
    reason: Annotated[str, Field(max_length=64)]
    """Machine-readable reason."""
    message: Message
    """One sentence for people."""
    last_transition_time: Time
    """When `status` last changed."""
    observed_generation: Count = 0
    """`metadata.generation` that this was computed from."""


class RoleStatus(Model):
    """Counts of one role, in replicas."""

    replicas: Count = 0
    """Replicas that exist, of every generation, pending and draining ones included."""
    ready_replicas: Count = 0
    """Replicas that can serve."""
    desired_replicas: Count = 0
    """Replicas that the spec or the controller asks for."""
    updated_replicas: Count = 0
    """Replicas of the current generation."""
    draining_replicas: Count = 0
    """Replicas that finish their requests before they go."""
    unschedulable_replicas: Count = 0
    """Replicas with a pod that finds no node."""
    summary: ShortText = ""
    """`ready/desired`, for the printed table."""


class AcceleratorStatus(Model):
    """Accelerators of both roles together."""

    in_use: Count = 0
    """Requested by existing pods, pending and draining ones included."""
    desired: Count = 0
    """Needed by the desired replicas."""
    budget: Count | None = None
    """The limit, if there is one."""


class Recommendation(Model):
    """What SLO mode would run (with `apply: Recommend`) or runs (with `apply: Auto`)."""

    prefill: Count
    """Prefill replicas."""
    decode: Count
    """Decode replicas."""
    reason: Message
    """Why, in one sentence."""


class SLOStatus(Model):
    """What users got in the last metrics window."""

    ttft_milliseconds: Count | None = None
    """Time to first token at the SLO's percentile."""
    itl_milliseconds: Count | None = None
    """Inter-token latency at the SLO's percentile."""


class Decision(Model):
    """One change that SLO mode decided on."""

    time: Time
    """When."""
    from_prefill: Count
    """Prefill replicas before."""
    from_decode: Count
    """Decode replicas before."""
    to_prefill: Count
    """Prefill replicas after."""
    to_decode: Count
    """Decode replicas after."""
    reason: Message
    """Why, in one sentence."""
    inputs: Annotated[str, Field(max_length=2048)] = ""
    """The numbers it was based on."""


class ScalingStatus(Model):
    """What SLO mode decided, and what it must remember over a restart."""

    prefill: Count | None = None
    """Decided prefill replicas; written before they are acted upon."""
    decode: Count | None = None
    """Decided decode replicas; written before they are acted upon."""
    state: Annotated[str, Field(max_length=16_384)] = ""
    """The controller's memory as JSON (cool-downs, recent needs). Not an interface."""
    history: Annotated[tuple[Decision, ...], Field(max_length=10)] = ()
    """The last ten changes, newest first."""


class GenerationStatus(Model):
    """One pair of role templates that still has workers."""

    hash: ShortText
    """Generation hash, as in the names of its StatefulSets."""
    compat: ShortText
    """Compatibility hash: workers are paired only within the same one."""
    prefill: Count = 0
    """Prefill replicas."""
    decode: Count = 0
    """Decode replicas."""
    state: ShortText
    """`Starting`, `Current` (it has served), `Serving` (an old one, until the current one can) or `Retiring`."""


class PDInferenceServiceStatus(Model):
    """Observed state."""

    observed_generation: Count = 0
    """`metadata.generation` that this status was computed from."""
    conditions: Annotated[tuple[Condition, ...], Field(max_length=24, json_schema_extra=list_map("type"))] = ()
    """Aspects of the state. `Ready`, `Reconciling` and `Stalled` follow kstatus."""
    prefill: RoleStatus = Field(default_factory=RoleStatus)
    """Prefill workers."""
    decode: RoleStatus = Field(default_factory=RoleStatus)
    """Decode workers."""
    accelerators: AcceleratorStatus = Field(default_factory=AcceleratorStatus)
    """Accelerators of both roles."""
    ratio: ShortText = ""
    """Desired prefill:decode."""
    units: Count = 0
    """FixedRatio mode: complete units that exist (the `scale` subresource's observed count)."""
    selector: Annotated[str, Field(max_length=512)] = ""
    """Label selector of the workers, for HPA and KEDA."""
    endpoint: Annotated[str, Field(max_length=512)] = ""
    """Address of the OpenAI-compatible API inside the cluster."""
    recommended: Recommendation | None = None
    """SLO mode's present answer."""
    slo: SLOStatus | None = None
    """Latencies in the last window."""
    scaling: ScalingStatus | None = None
    """SLO mode's decisions."""
    generations: Annotated[tuple[GenerationStatus, ...], Field(max_length=16, json_schema_extra=list_map("hash"))] = ()
    """Pairs of templates that have workers."""
