"""How many replicas of each role: by hand, in a fixed ratio, or from SLO metrics."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

from pydantic import ConfigDict, Field

from pd_operator.api.v1alpha1.base import (
    MAX_ACCELERATORS,
    MAX_REPLICAS,
    Model,
    Percent,
    Seconds,
    message,
    nested,
    rules,
)


class SLOSpec(Model):
    """The promise to users: latencies at a percentile."""

    ttft_milliseconds: Annotated[int, Field(ge=1, le=3_600_000)]
    """Time to first token, in milliseconds."""
    itl_milliseconds: Annotated[int, Field(ge=1, le=3_600_000)]
    """Inter-token latency, in milliseconds."""
    percentile: Annotated[int, Field(ge=50, le=99)] = 90
    """Percentile of requests (TTFT) and of token gaps (ITL) at which the latencies are promised."""
    attainment_percent: Percent = 95
    """Part of the time that the promise is to hold."""


class ScalingMode(StrEnum):
    MANUAL = "Manual"
    FIXED_RATIO = "FixedRatio"
    SLO = "SLO"


class ScalingApply(StrEnum):
    AUTO = "Auto"
    RECOMMEND = "Recommend"


class OnMissing(StrEnum):
    HOLD = "Hold"
    FLOOR = "Floor"


class FixedRatio(Model):
    """Replicas in one unit."""

    prefill: Annotated[int, Field(ge=1, le=64)]
    """Prefill replicas in one unit."""
    decode: Annotated[int, Field(ge=1, le=64)]
    """Decode replicas in one unit."""


class Budget(Model):
    """What both roles may use together."""

    accelerators: Annotated[int, Field(ge=1, le=MAX_ACCELERATORS)]
    """Accelerators, counting pending and draining pods."""


RatioText = Annotated[str, Field(pattern=r"^[1-9][0-9]{0,3}:[1-9][0-9]{0,3}$")]


class RatioBounds(Model):
    """Bounds on prefill:decode in SLO mode."""

    min: RatioText = "1:64"
    """Fewest prefill replicas for each decode replica, as `P:D`."""
    max: RatioText = "64:1"
    """Most prefill replicas for each decode replica, as `P:D`."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "int(self.min.split(':')[0]) * int(self.max.split(':')[1]) <= "
                "int(self.max.split(':')[0]) * int(self.min.split(':')[1])",
                message("scaling.ratio.min %s is above scaling.ratio.max %s: swap them", "self.min", "self.max"),
                ".min",
            )
        )
    )


class ScalingBehavior(Model):
    """How fast SLO mode may move. The defaults fit GPU services whose workers take minutes to start."""

    target_utilization_percent: Percent = 70
    """Part of a replica's capacity that is planned for; the rest absorbs bursts."""
    scale_up_cooldown_seconds: Seconds = 30
    """Least time between two increases of a role."""
    scale_down_cooldown_seconds: Seconds = 300
    """Least time between the last change of a role and its decrease."""
    scale_down_stabilization_seconds: Seconds = 300
    """A decrease follows the highest need of this long."""
    max_step_replicas: Annotated[int, Field(ge=1, le=MAX_REPLICAS)] = 4
    """Most replicas of a role added or removed at once."""


class MetricsSpec(Model):
    """How metrics are trusted."""

    max_age_seconds: Annotated[int, Field(ge=5, le=3600)] = 60
    """Older samples count as missing."""
    on_missing: OnMissing = OnMissing.HOLD
    """`Hold` keeps the counts while metrics are missing; `Floor` also refuses to go below `replicas`."""


class CapacityProfile(Model):
    """What one replica can do within the SLO, if you know it. Without it the operator judges by load and latency."""

    prefill_tokens_per_second: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Prompt tokens per second of one prefill replica."""
    decode_tokens_per_second: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Generated tokens per second of one decode replica."""
    decode_concurrent_requests: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Requests that one decode replica can stream at once."""


class ScalingSpec(Model):
    """How the counts are chosen."""

    mode: ScalingMode = ScalingMode.MANUAL
    """`Manual`: `prefill.replicas` and `decode.replicas`. `FixedRatio`: units × ratio. `SLO`: from metrics."""
    apply: ScalingApply = ScalingApply.AUTO
    """SLO mode: `Auto` acts; `Recommend` computes and publishes in status, and changes nothing."""
    fixed_ratio: FixedRatio | None = None
    """FixedRatio mode: replicas in one unit."""
    units: Annotated[int, Field(ge=0, le=MAX_REPLICAS)] = 1
    """FixedRatio mode: number of units. The `scale` subresource sets it, so `kubectl scale`, HPA and KEDA work."""
    budget: Budget | None = None
    """SLO mode: accelerators of both roles together."""
    ratio: RatioBounds = nested(RatioBounds)
    """SLO mode: bounds on prefill:decode."""
    behavior: ScalingBehavior = nested(ScalingBehavior)
    """SLO mode: speed."""
    metrics: MetricsSpec = nested(MetricsSpec)
    """SLO mode: trust in metrics."""
    profile: CapacityProfile = nested(CapacityProfile)
    """SLO mode: known capacity of one replica."""

    model_config = ConfigDict(
        json_schema_extra=rules(
            (
                "self.mode != 'FixedRatio' || has(self.fixedRatio)",
                "scaling.mode is FixedRatio: set scaling.fixedRatio, for example {prefill: 1, decode: 3}",
                ".fixedRatio",
            )
        )
    )
