"""Names that appear on objects: API group, labels, annotations and their values."""

from __future__ import annotations

from typing import Final

GROUP: Final = "pdinference.dev"
VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "PDInferenceService"
PLURAL: Final = "pdinferenceservices"
SHORT_NAME: Final = "pdinf"

#: The one server-side-apply field manager, and the value of `app.kubernetes.io/managed-by`.
MANAGER: Final = "pd-operator"

# Standard labels.
NAME: Final = "app.kubernetes.io/name"
INSTANCE: Final = "app.kubernetes.io/instance"
COMPONENT: Final = "app.kubernetes.io/component"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
PART_OF: Final = "app.kubernetes.io/part-of"

# Labels of children.
SERVICE: Final = f"{GROUP}/service"
ROLE: Final = f"{GROUP}/role"
GENERATION: Final = f"{GROUP}/generation"
COMPAT: Final = f"{GROUP}/compat"
RANK: Final = f"{GROUP}/rank"
TRAFFIC: Final = f"{GROUP}/traffic"

#: Values of ROLE.
PREFILL: Final = "prefill"
DECODE: Final = "decode"
ROUTER: Final = "router"

#: Values of TRAFFIC, the one switch that puts a worker in front of users.
SERVING: Final = "serving"
DRAINING: Final = "draining"
HELD: Final = "held"

# Annotations.
#: RFC 3339 time at which a pod began to drain; survives restarts of the operator.
DRAIN_STARTED: Final = f"{GROUP}/drain-started"
#: Pods of one replica, on a StatefulSet: its `spec.replicas` counts pods.
NODES: Final = f"{GROUP}/nodes"
#: Hash of what the operator built: tells a change of its own making from an edit by somebody else.
FINGERPRINT: Final = f"{GROUP}/fingerprint"
#: Where SMG's discovery reads a prefill pod's bootstrap port (a fixed name in SMG).
BOOTSTRAP_PORT: Final = "sglang.ai/bootstrap-port"
#: The label by which a StatefulSet tells a pod's ordinal (Kubernetes >= 1.28).
POD_INDEX: Final = "apps.kubernetes.io/pod-index"
#: Selects every child of every service, for watches and lists.
SELECTOR_OF_CHILDREN: Final = f"{MANAGED_BY}={MANAGER}"
