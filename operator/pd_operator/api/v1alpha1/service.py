"""`PDInferenceService`: the object a user applies."""

from __future__ import annotations

from typing import Annotated, Any, Final

from pydantic import ConfigDict, Field

from pd_operator.api import labels
from pd_operator.api.v1alpha1.base import Model, message, nested, rules
from pd_operator.api.v1alpha1.engine import EngineSpec, ModelSpec, TransferSpec
from pd_operator.api.v1alpha1.role import RoleSpec
from pd_operator.api.v1alpha1.router import RouterSpec
from pd_operator.api.v1alpha1.scaling import ScalingSpec, SLOSpec
from pd_operator.api.v1alpha1.status import PDInferenceServiceStatus

#: `<name>-prefill-<8 characters>` must stay within the 52 characters that a StatefulSet name may have
#: before the revision label of its pods is cut off.
MAX_NAME_LENGTH: Final = 35

_PER_REPLICA: Final = (
    "(has(self.{r}.accelerator.count) ? self.{r}.accelerator.count * self.{r}.parallelism.nodes : "
    "self.{r}.parallelism.tensor * self.{r}.parallelism.pipeline * self.{r}.parallelism.data)"
)


def _accelerators(field: str) -> str:
    """CEL: accelerators of both roles with `field` replicas each."""
    return " + ".join(f"self.{r}.{field} * {_PER_REPLICA.format(r=r)}" for r in ("prefill", "decode"))


_SLO_BUDGET: Final = "self.scaling.mode != 'SLO' || !has(self.scaling.budget) || "


class Disruption(Model):
    """PodDisruptionBudgets, one for each role."""

    enabled: bool = True
    """Protect workers from node drains and other voluntary disruptions."""
    max_unavailable_replicas: Annotated[int, Field(ge=1, le=100)] = 1
    """Replicas of a role that may be disrupted at once."""


class PDInferenceServiceSpec(Model):
    """Desired state: one model, served by prefill and decode workers behind a router."""

    model: ModelSpec
    """The model that is served."""
    engine: EngineSpec = nested(EngineSpec)
    """SGLang, for both roles."""
    transfer: TransferSpec = nested(TransferSpec)
    """KV cache transfer from prefill to decode."""
    prefill: RoleSpec = nested(RoleSpec)
    """Prefill workers: they compute prompts and set the time to first token."""
    decode: RoleSpec = nested(RoleSpec)
    """Decode workers: they stream tokens and set the inter-token latency."""
    router: RouterSpec = nested(RouterSpec)
    """The router that clients talk to."""
    slo: SLOSpec | None = None
    """Latency promise; needed in SLO mode."""
    scaling: ScalingSpec = nested(ScalingSpec)
    """How the numbers of prefill and decode replicas are chosen."""
    disruption: Disruption = nested(Disruption)
    """Protection from voluntary disruptions."""
    suspend: bool = False
    """Scale everything to zero and keep the object."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.decode.parallelism.pipeline == 1 || "
                "self.decode.parallelism.pipeline == self.prefill.parallelism.pipeline",
                message(
                    "decode.parallelism.pipeline %s must be 1 or equal prefill.parallelism.pipeline %s: a decode "
                    "server ends at its first request otherwise",
                    "self.decode.parallelism.pipeline",
                    "self.prefill.parallelism.pipeline",
                ),
            ),
            (
                "self.transfer.rdma.requirement != 'Required' || has(self.transfer.rdma.resourceName) || "
                "(self.prefill.pod.hostNetwork && self.decode.pod.hostNetwork)",
                "transfer.rdma.requirement is Required: set transfer.rdma.resourceName to the RDMA device plugin's "
                "resource (for example rdma/hca), or pod.hostNetwork: true on both roles",
            ),
            (
                "self.transfer.rdma.requirement != 'Required' || self.transfer.backend != 'MooncakeTCP'",
                "transfer.backend MooncakeTCP never uses RDMA: set transfer.rdma.requirement to Disabled, "
                "or transfer.backend to Mooncake",
            ),
            (
                "self.scaling.mode != 'SLO' || has(self.slo)",
                "scaling.mode is SLO: set slo.ttftMilliseconds and slo.itlMilliseconds",
            ),
            (
                "self.scaling.mode != 'SLO' || has(self.scaling.budget) || "
                "(has(self.prefill.maxReplicas) && has(self.decode.maxReplicas))",
                "scaling.mode is SLO: set scaling.budget.accelerators, or maxReplicas of both prefill and decode",
            ),
            (
                "self.scaling.mode != 'SLO' || (self.prefill.minReplicas >= 1 && self.decode.minReplicas >= 1)",
                "scaling.mode is SLO: minReplicas of prefill and decode must be at least 1, since one role alone "
                "cannot serve (use suspend: true to scale to zero)",
            ),
            *(
                (
                    f"self.scaling.mode != 'SLO' || (self.{role}.minReplicas <= self.{role}.replicas && "
                    f"(!has(self.{role}.maxReplicas) || self.{role}.replicas <= self.{role}.maxReplicas))",
                    message(
                        f"{role}.replicas %s is where SLO mode starts: keep it between {role}.minReplicas and "
                        f"{role}.maxReplicas",
                        f"self.{role}.replicas",
                    ),
                )
                for role in (labels.PREFILL, labels.DECODE)
            ),
            (
                f"{_SLO_BUDGET}{_accelerators('minReplicas')} <= self.scaling.budget.accelerators",
                message(
                    "scaling.budget.accelerators %s is below the %s accelerators of minReplicas: raise the budget or "
                    "lower minReplicas",
                    "self.scaling.budget.accelerators",
                    _accelerators("minReplicas"),
                ),
            ),
            (
                f"{_SLO_BUDGET}{_accelerators('replicas')} <= self.scaling.budget.accelerators",
                message(
                    "scaling.budget.accelerators %s is below the %s accelerators of replicas: raise the budget or "
                    "lower replicas",
                    "self.scaling.budget.accelerators",
                    _accelerators("replicas"),
                ),
            ),
        )
    )


class Metadata(Model):
    """The part of `metadata` that planning needs."""

    name: str
    namespace: str
    uid: str
    generation: int = 1
    resource_version: str = ""
    deletion_timestamp: str | None = None


class PDInferenceService(Model):
    """An SGLang service with separate prefill and decode workers."""

    metadata: Metadata
    spec: PDInferenceServiceSpec
    status: PDInferenceServiceStatus = Field(default_factory=PDInferenceServiceStatus)

    @property
    def key(self) -> tuple[str, str]:
        """Namespace and name: the identity of the service in queue, store and logs."""
        return self.metadata.namespace, self.metadata.name

    def role(self, name: str) -> RoleSpec:
        """The role `prefill` or `decode`."""
        return self.spec.prefill if name == labels.PREFILL else self.spec.decode


ROOT_RULES: Final[dict[str, Any]] = rules(
    (
        f"size(self.metadata.name) <= {MAX_NAME_LENGTH} && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "cel:'metadata.name ' + self.metadata.name + ' must be at most "
        f"{MAX_NAME_LENGTH} characters of a-z, 0-9 and -, starting with a letter: names of pods and Services are "
        "made from it'",
    )
)
