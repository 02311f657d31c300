"""How many replicas of each role a service should have."""

from __future__ import annotations

from dataclasses import dataclass

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService, ScalingMode


@dataclass(frozen=True, slots=True)
class Counts:
    """Replicas of both roles."""

    prefill: int
    decode: int

    def of(self, role: str) -> int:
        """Replicas of one role."""
        return self.prefill if role == labels.PREFILL else self.decode

    def accelerators(self, service: PDInferenceService) -> int:
        """What these replicas need."""
        return (
            self.prefill * service.spec.prefill.accelerators_per_replica
            + self.decode * service.spec.decode.accelerators_per_replica
        )


def declared(service: PDInferenceService) -> Counts:
    """What the spec says: replicas, or units × ratio; in SLO mode, where scaling starts."""
    spec = service.spec
    ratio = spec.scaling.fixed_ratio
    if spec.scaling.mode == ScalingMode.FIXED_RATIO and ratio is not None:
        return Counts(spec.scaling.units * ratio.prefill, spec.scaling.units * ratio.decode)
    return Counts(spec.prefill.replicas, spec.decode.replicas)


def complete_units(service: PDInferenceService, present: Counts) -> int:
    """Whole units among the replicas that are present; 0 outside FixedRatio mode."""
    ratio = service.spec.scaling.fixed_ratio
    if service.spec.scaling.mode != ScalingMode.FIXED_RATIO or ratio is None:
        return 0
    return min(present.prefill // ratio.prefill, present.decode // ratio.decode)
