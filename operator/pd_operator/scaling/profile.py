"""What the policy is given about one service: capacity of a replica, promise, and bounds, as plain numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pd_operator.api.v1alpha1 import OnMissing, PDInferenceService, RoleSpec

#: A replica that has been starting for longer than this is not coming soon: others are asked for in its place, within
#: bounds and budget. Cold starts of GPU workers are 2–7 minutes as published by others (WVA, BLIS).
START_PATIENCE_SECONDS: Final = 600.0


@dataclass(frozen=True, slots=True)
class Profile:
    """What one replica can do within the SLO; absent where the user does not know it.

    Attributes:
        prefill_tokens_per_second: Prompt tokens computed per second (prefix cache hits cost nothing).
        decode_tokens_per_second: Tokens generated per second.
        decode_concurrent_requests: Requests streamed at once.
    """

    prefill_tokens_per_second: float | None = None
    decode_tokens_per_second: float | None = None
    decode_concurrent_requests: float | None = None


@dataclass(frozen=True, slots=True)
class SLO:
    """The promise to users, in seconds."""

    ttft_seconds: float
    itl_seconds: float


@dataclass(frozen=True, slots=True)
class RoleBounds:
    """Bounds of one role.

    Attributes:
        minimum, maximum: Replicas; no maximum means what the budget allows.
        start: Replicas to start from.
        accelerators: Of one replica.
        start_patience_seconds: After this long a replica that is not ready counts as stuck.
    """

    minimum: int = 1
    maximum: int | None = None
    start: int = 1
    accelerators: int = 1
    start_patience_seconds: float = START_PATIENCE_SECONDS


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the policy may do, and how fast.

    Attributes:
        budget: Accelerators of both roles, pending and draining pods included; None means no budget.
        ratio_minimum, ratio_maximum: Fewest and most prefill per decode replica, as a pair (prefill, decode).
        target: Part of a replica's capacity that is planned for, 0 to 1.
        max_age_seconds: Older samples count as missing.
        floor_when_missing: While metrics are missing, keep at least `start` replicas of each role.
    """

    prefill: RoleBounds = RoleBounds()
    decode: RoleBounds = RoleBounds()
    budget: int | None = None
    ratio_minimum: tuple[int, int] = (1, 64)
    ratio_maximum: tuple[int, int] = (64, 1)
    target: float = 0.7
    scale_up_cooldown_seconds: float = 30.0
    scale_down_cooldown_seconds: float = 300.0
    scale_down_stabilization_seconds: float = 300.0
    max_step: int = 4
    max_age_seconds: float = 60.0
    floor_when_missing: bool = False


def profile_of(service: PDInferenceService) -> Profile:
    """The capacity profile that the user gave."""
    given = service.spec.scaling.profile
    return Profile(
        prefill_tokens_per_second=given.prefill_tokens_per_second,
        decode_tokens_per_second=given.decode_tokens_per_second,
        decode_concurrent_requests=given.decode_concurrent_requests,
    )


def slo_of(service: PDInferenceService) -> SLO:
    """The promise. Raises `ValueError` when the service has none (SLO mode requires one)."""
    slo = service.spec.slo
    if slo is None:
        raise ValueError(f"{'/'.join(service.key)} has no slo: set slo.ttftMilliseconds and slo.itlMilliseconds")
    return SLO(ttft_seconds=slo.ttft_milliseconds / 1000, itl_seconds=slo.itl_milliseconds / 1000)


def bounds_of(service: PDInferenceService) -> Bounds:
    """Bounds and speed that the user allows."""
    scaling = service.spec.scaling
    behavior = scaling.behavior
    return Bounds(
        prefill=_role_bounds(service.spec.prefill),
        decode=_role_bounds(service.spec.decode),
        budget=scaling.budget.accelerators if scaling.budget else None,
        ratio_minimum=_ratio(scaling.ratio.min),
        ratio_maximum=_ratio(scaling.ratio.max),
        target=behavior.target_utilization_percent / 100,
        scale_up_cooldown_seconds=behavior.scale_up_cooldown_seconds,
        scale_down_cooldown_seconds=behavior.scale_down_cooldown_seconds,
        scale_down_stabilization_seconds=behavior.scale_down_stabilization_seconds,
        max_step=behavior.max_step_replicas,
        max_age_seconds=scaling.metrics.max_age_seconds,
        floor_when_missing=scaling.metrics.on_missing is OnMissing.FLOOR,
    )


def _role_bounds(role: RoleSpec) -> RoleBounds:
    return RoleBounds(
        minimum=role.min_replicas,
        maximum=role.max_replicas,
        start=role.replicas,
        accelerators=role.accelerators_per_replica,
        start_patience_seconds=min(START_PATIENCE_SECONDS, role.startup_timeout_seconds),
    )


def _ratio(text: str) -> tuple[int, int]:
    prefill, decode = text.split(":")
    return int(prefill), int(decode)
