"""Condition types and reasons. Constants, because people alert and script on them."""

from __future__ import annotations

from typing import Final

# Summary, as kstatus reads it (Flux, Argo CD, `kubectl wait`).
READY: Final = "Ready"
RECONCILING: Final = "Reconciling"
STALLED: Final = "Stalled"

# What the summary is made of.
PREFILL_AVAILABLE: Final = "PrefillAvailable"
DECODE_AVAILABLE: Final = "DecodeAvailable"
ROUTER_AVAILABLE: Final = "RouterAvailable"
ROLLOUT_PROGRESSING: Final = "RolloutProgressing"
METRICS_AVAILABLE: Final = "MetricsAvailable"
SCALING_ACTIVE: Final = "ScalingActive"
SCALING_LIMITED: Final = "ScalingLimited"

#: Condition per role.
AVAILABLE: Final = {"prefill": PREFILL_AVAILABLE, "decode": DECODE_AVAILABLE, "router": ROUTER_AVAILABLE}

# Reasons.
AS_DESIRED: Final = "AsDesired"  # everything runs as the spec asks
PROGRESSING: Final = "Progressing"  # on its way, nothing wrong seen
SUSPENDED: Final = "Suspended"  # spec.suspend is true
INVALID_SPEC: Final = "InvalidSpec"  # the object breaks a rule that admission could not check
REJECTED: Final = "ObjectRejected"  # the API server refused a child object
FORBIDDEN: Final = "Forbidden"  # the operator lacks a permission
UNSCHEDULABLE: Final = "Unschedulable"  # a pod finds no node
QUOTA_EXCEEDED: Final = "QuotaExceeded"  # a ResourceQuota refuses pods
POD_CREATION_FAILED: Final = "PodCreationFailed"  # a controller cannot create pods (admission, limits)
IMAGE_PULL_FAILED: Final = "ImagePullFailed"  # an image cannot be pulled
CONTAINER_CONFIG_FAILED: Final = "ContainerConfigFailed"  # a Secret, ConfigMap or volume is missing
CRASH_LOOP: Final = "CrashLoopBackOff"  # a container keeps ending
STARTING: Final = "Starting"  # pods exist and are not ready yet
NO_ROUTER: Final = "RouterDisabled"  # router.type is None
NO_TRAFFIC_PAIR: Final = "MissingRole"  # a role has no ready replica, so no request can be served

MANUAL: Final = "Manual"  # scaling.mode is Manual or FixedRatio: nothing decides at run time
ACTIVE: Final = "Active"
RECOMMEND_ONLY: Final = "RecommendOnly"
WITHIN_BOUNDS: Final = "WithinBounds"
BUDGET_LIMIT: Final = "BudgetLimit"
BOUNDS_LIMIT: Final = "BoundsLimit"
NOT_CONFIGURED: Final = "NotConfigured"  # the operator has no Prometheus address
METRICS_OK: Final = "MetricsFresh"  # every other reason is a value of scaling.window.MetricsFault
METRICS_STALE: Final = "Stale"
