"""The rules of the API once more, inside the operator.

The CRD holds the same rules as CEL, but an object may be older than a rule. Each policy looks at a whole service and
yields what it finds; one table of good and bad objects tests both.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import (
    MAX_NAME_LENGTH,
    OWNED_FLAGS,
    PDInferenceService,
    RDMARequirement,
    RoleSpec,
    ScalingMode,
    SourceType,
    TransferBackend,
    owned_flag,
)

_NAME: Final = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_OWN_LABELS: Final = (f"{labels.GROUP}/", "app.kubernetes.io/")


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule.

    Attributes:
        field: Path of the field, from the root of the object.
        value: What it holds.
        fix: What is wrong with that and what to do.
    """

    field: str
    value: str
    fix: str

    def __str__(self) -> str:
        """One sentence."""
        return f"{self.field} is {self.value}: {self.fix}" if self.value else f"{self.field} is not set: {self.fix}"


def violations(service: PDInferenceService) -> tuple[Violation, ...]:
    """Every rule that `service` breaks."""
    return tuple(violation for policy in _POLICIES for violation in policy(service))


def _name(service: PDInferenceService) -> Iterator[Violation]:
    name = service.metadata.name
    if len(name) > MAX_NAME_LENGTH or not _NAME.fullmatch(name):
        yield Violation(
            "metadata.name",
            name,
            f"use at most {MAX_NAME_LENGTH} characters of a-z, 0-9 and -, starting with a letter and not ending "
            "with -, since names of pods and Services are made from it",
        )


def _source(service: PDInferenceService) -> Iterator[Violation]:
    source = service.spec.model.source
    members = {
        SourceType.HUGGING_FACE: ("huggingFace", source.hugging_face),
        SourceType.PERSISTENT_VOLUME_CLAIM: ("persistentVolumeClaim", source.persistent_volume_claim),
        SourceType.HOST_PATH: ("hostPath", source.host_path),
    }
    for kind, (member, value) in members.items():
        if value is not None and kind != source.type:
            yield Violation(
                f"spec.model.source.{member}",
                "set",
                f"remove it, or change spec.model.source.type from {source.type.value} to {kind.value}",
            )
        if value is None and kind == source.type and kind != SourceType.HUGGING_FACE:
            yield Violation(f"spec.model.source.{member}", "", f"spec.model.source.type {kind.value} needs it")


def _owned_args(service: PDInferenceService) -> Iterator[Violation]:
    lists = {
        "spec.engine.args": service.spec.engine.args,
        "spec.prefill.args": service.spec.prefill.args,
        "spec.decode.args": service.spec.decode.args,
    }
    for field, args in lists.items():
        for arg in args:
            flag = owned_flag(arg)
            if flag is not None:
                yield Violation(field, arg, f"the operator sets {flag}; remove it and use {OWNED_FLAGS[flag]}")


def _pod_labels(service: PDInferenceService) -> Iterator[Violation]:
    overlays = {
        "spec.prefill.pod.labels": service.spec.prefill.pod,
        "spec.decode.pod.labels": service.spec.decode.pod,
        "spec.router.pod.labels": service.spec.router.pod,
    }
    for field, overlay in overlays.items():
        for key in sorted(overlay.labels):
            if key.startswith(_OWN_LABELS):
                yield Violation(field, key, "keys below this prefix belong to the operator; use another prefix")


def _parallelism(service: PDInferenceService) -> Iterator[Violation]:
    for role, settings in _roles(service):
        parallelism, path = settings.parallelism, f"spec.{role}.parallelism"
        ranks = parallelism.tensor * parallelism.pipeline
        if ranks % parallelism.nodes:
            yield Violation(
                f"{path}.nodes",
                str(parallelism.nodes),
                f"choose a divisor of tensor × pipeline = {ranks}, so that every pod has the same number of ranks",
            )
        if parallelism.nodes > 1 and parallelism.data > 1:
            yield Violation(
                f"{path}.data",
                str(parallelism.data),
                "data parallelism cannot span nodes; set nodes to 1, or data to 1 and add replicas",
            )
    prefill, decode = service.spec.prefill.parallelism, service.spec.decode.parallelism
    if decode.pipeline not in (1, prefill.pipeline):
        yield Violation(
            "spec.decode.parallelism.pipeline",
            str(decode.pipeline),
            f"set it to 1 or to prefill.parallelism.pipeline, which is {prefill.pipeline}; a decode server ends at "
            "its first request otherwise",
        )


def _rdma(service: PDInferenceService) -> Iterator[Violation]:
    transfer = service.spec.transfer
    if transfer.rdma.requirement != RDMARequirement.REQUIRED:
        return
    on_host = service.spec.prefill.pod.host_network and service.spec.decode.pod.host_network
    if transfer.rdma.resource_name is None and not on_host:
        yield Violation(
            "spec.transfer.rdma.resourceName",
            "",
            "transfer.rdma.requirement Required needs the RDMA device plugin's resource (for example rdma/hca), or "
            "pod.hostNetwork true on both roles",
        )
    if transfer.backend == TransferBackend.MOONCAKE_TCP:
        yield Violation(
            "spec.transfer.backend",
            transfer.backend.value,
            "it never uses RDMA; set transfer.rdma.requirement to Disabled, or transfer.backend to Mooncake",
        )


def _fixed_ratio(service: PDInferenceService) -> Iterator[Violation]:
    scaling = service.spec.scaling
    if scaling.mode == ScalingMode.FIXED_RATIO and scaling.fixed_ratio is None:
        yield Violation(
            "spec.scaling.fixedRatio",
            "",
            "scaling.mode FixedRatio needs it, for example {prefill: 1, decode: 3}",
        )


def _ratio_bounds(service: PDInferenceService) -> Iterator[Violation]:
    bounds = service.spec.scaling.ratio
    low, high = _ratio(bounds.min), _ratio(bounds.max)
    if low[0] * high[1] > high[0] * low[1]:
        yield Violation("spec.scaling.ratio.min", bounds.min, f"it is above scaling.ratio.max {bounds.max}; swap them")


def _replica_bounds(service: PDInferenceService) -> Iterator[Violation]:
    for role, settings in _roles(service):
        if settings.max_replicas is not None and settings.min_replicas > settings.max_replicas:
            yield Violation(
                f"spec.{role}.minReplicas",
                str(settings.min_replicas),
                f"it is above maxReplicas {settings.max_replicas}; lower minReplicas or raise maxReplicas",
            )


def _slo_mode(service: PDInferenceService) -> Iterator[Violation]:
    spec = service.spec
    if spec.scaling.mode != ScalingMode.SLO:
        return
    if spec.slo is None:
        yield Violation("spec.slo", "", "scaling.mode SLO needs slo.ttftMilliseconds and slo.itlMilliseconds")
    if spec.scaling.budget is None and (spec.prefill.max_replicas is None or spec.decode.max_replicas is None):
        yield Violation(
            "spec.scaling.budget",
            "",
            "scaling.mode SLO needs scaling.budget.accelerators, or maxReplicas of both prefill and decode",
        )
    for role, settings in _roles(service):
        if settings.min_replicas < 1:
            yield Violation(
                f"spec.{role}.minReplicas",
                str(settings.min_replicas),
                "scaling.mode SLO needs at least 1, since one role alone cannot serve (suspend: true scales to zero)",
            )
        highest = settings.max_replicas if settings.max_replicas is not None else settings.replicas
        if not settings.min_replicas <= settings.replicas <= highest:
            yield Violation(
                f"spec.{role}.replicas",
                str(settings.replicas),
                f"SLO mode starts there; keep it between {role}.minReplicas and {role}.maxReplicas",
            )


def _budget(service: PDInferenceService) -> Iterator[Violation]:
    scaling = service.spec.scaling
    if scaling.mode != ScalingMode.SLO or scaling.budget is None:
        return
    budget = scaling.budget.accelerators
    for field in ("minReplicas", "replicas"):
        needed = sum(
            (settings.min_replicas if field == "minReplicas" else settings.replicas) * settings.accelerators_per_replica
            for _, settings in _roles(service)
        )
        if needed > budget:
            yield Violation(
                "spec.scaling.budget.accelerators",
                str(budget),
                f"{field} of both roles need {needed} accelerators; raise the budget or lower {field}",
            )


def _roles(service: PDInferenceService) -> tuple[tuple[str, RoleSpec], ...]:
    return (labels.PREFILL, service.spec.prefill), (labels.DECODE, service.spec.decode)


def _ratio(text: str) -> tuple[int, int]:
    prefill, decode = text.split(":")
    return int(prefill), int(decode)


_POLICIES: Final[tuple[Callable[[PDInferenceService], Iterator[Violation]], ...]] = (
    _name,
    _source,
    _owned_args,
    _pod_labels,
    _parallelism,
    _rdma,
    _fixed_ratio,
    _ratio_bounds,
    _replica_bounds,
    _slo_mode,
    _budget,
)
