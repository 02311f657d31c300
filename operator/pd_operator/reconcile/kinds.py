"""The kinds of objects that the operator watches and writes, and where the API server keeps each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pd_operator.api import labels


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of namespaced object.

    Attributes:
        name: `StatefulSet`.
        group: API group; empty for the core group.
        version: API version inside the group.
        plural: Its word in URLs and in RBAC rules.
        labelled: Watched through the label selector of children; the service itself carries no such label.
    """

    name: str
    group: str
    version: str
    plural: str
    labelled: bool = True

    @property
    def api_version(self) -> str:
        """`apps/v1`, or `v1` in the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None, name: str | None = None) -> str:
        """URL path of one object, of a namespace's collection, or of the collection in all namespaces."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace else ""
        return f"{root}{scope}/{self.plural}" + (f"/{name}" if name else "")


SERVICE_KIND: Final = Kind(labels.KIND, labels.GROUP, labels.VERSION, labels.PLURAL, labelled=False)
STATEFUL_SET: Final = Kind("StatefulSet", "apps", "v1", "statefulsets")
DEPLOYMENT: Final = Kind("Deployment", "apps", "v1", "deployments")
POD: Final = Kind("Pod", "", "v1", "pods")

#: What a service is made of, in the order in which lists of kinds are shown.
CHILD_KINDS: Final = (
    STATEFUL_SET,
    DEPLOYMENT,
    Kind("Service", "", "v1", "services"),
    Kind("PodDisruptionBudget", "policy", "v1", "poddisruptionbudgets"),
    Kind("ServiceAccount", "", "v1", "serviceaccounts"),
    Kind("Role", "rbac.authorization.k8s.io", "v1", "roles"),
    Kind("RoleBinding", "rbac.authorization.k8s.io", "v1", "rolebindings"),
)
WATCHED_KINDS: Final = (SERVICE_KIND, *CHILD_KINDS, POD)
BY_NAME: Final = {kind.name: kind for kind in WATCHED_KINDS}
