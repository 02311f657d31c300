"""A small, thread-safe client of the API server for tests and benchmarks.

kubectl (`e2e.kubectl`) shows what people see; this is for the many quick looks in between, which would be slow as
processes, and for what kubectl hides: field managers, dry runs, managed fields.
"""

from __future__ import annotations

import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlencode

from e2e.lab import kubeconfig as kubeconfigs

Object = dict[str, Any]

_JSON: Final = "application/json"
_MERGE: Final = "application/merge-patch+json"
_APPLY: Final = "application/apply-patch+yaml"


@dataclass(frozen=True, slots=True)
class _Kind:
    root: str
    plural: str
    namespaced: bool = True


_KINDS: Final[Mapping[str, _Kind]] = {
    "PDInferenceService": _Kind("/apis/pdinference.dev/v1alpha1", "pdinferenceservices"),
    "StatefulSet": _Kind("/apis/apps/v1", "statefulsets"),
    "Deployment": _Kind("/apis/apps/v1", "deployments"),
    "ReplicaSet": _Kind("/apis/apps/v1", "replicasets"),
    "ControllerRevision": _Kind("/apis/apps/v1", "controllerrevisions"),
    "Pod": _Kind("/api/v1", "pods"),
    "Service": _Kind("/api/v1", "services"),
    "ServiceAccount": _Kind("/api/v1", "serviceaccounts"),
    "ResourceQuota": _Kind("/api/v1", "resourcequotas"),
    "Event": _Kind("/api/v1", "events"),
    "Role": _Kind("/apis/rbac.authorization.k8s.io/v1", "roles"),
    "RoleBinding": _Kind("/apis/rbac.authorization.k8s.io/v1", "rolebindings"),
    "PodDisruptionBudget": _Kind("/apis/policy/v1", "poddisruptionbudgets"),
    "ClusterRole": _Kind("/apis/rbac.authorization.k8s.io/v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": _Kind("/apis/rbac.authorization.k8s.io/v1", "clusterrolebindings", namespaced=False),
    "CustomResourceDefinition": _Kind("/apis/apiextensions.k8s.io/v1", "customresourcedefinitions", namespaced=False),
    "FlowSchema": _Kind("/apis/flowcontrol.apiserver.k8s.io/v1", "flowschemas", namespaced=False),
    "Namespace": _Kind("/api/v1", "namespaces", namespaced=False),
    "Node": _Kind("/api/v1", "nodes", namespaced=False),
}


class RestError(Exception):
    """The API server refused a request.

    Attributes:
        status: HTTP status.
        message: The API server's own words.
    """

    def __init__(self, status: int, method: str, path: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status
        self.message = message


class Rest:
    """One API server, with the rights of a kubeconfig that the lab wrote."""

    def __init__(self, kubeconfig: Path, timeout: float = 30.0) -> None:
        self._access = kubeconfigs.read(kubeconfig)
        self._tls = ssl.create_default_context(cadata=self._access.authority)
        self._timeout = timeout
        self._local = threading.local()

    def get(self, kind: str, name: str, namespace: str | None = None) -> Object:
        """One object."""
        return self._object("GET", _path(kind, namespace, name))

    def find(self, kind: str, name: str, namespace: str | None = None) -> Object | None:
        """One object, or None when there is none."""
        try:
            return self.get(kind, name, namespace)
        except RestError as error:
            if error.status != http.client.NOT_FOUND:
                raise
            return None

    def list(self, kind: str, namespace: str | None = None, selector: str = "") -> list[Object]:
        """Objects of a kind in a namespace, or in all. Items carry no `kind`, as the API server sends them."""
        found: list[Object] = self._object("GET", _path(kind, namespace), {"labelSelector": selector})["items"]
        return found

    def create(self, body: Mapping[str, Any], *, dry_run: bool = False) -> Object:
        """Create an object; unknown fields are an error, as for kubectl."""
        query = {"fieldValidation": "Strict", "dryRun": "All" if dry_run else ""}
        return self._object("POST", _path(body["kind"], body["metadata"].get("namespace")), query, body)

    def token(self, account: str, namespace: str, seconds: int = 86_400) -> str:
        """A token of a ServiceAccount, valid for so long."""
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"expirationSeconds": seconds},
        }
        answer = self._object("POST", _path("ServiceAccount", namespace, account, "token"), body=body)
        return str(answer["status"]["token"])

    def apply(
        self, body: Mapping[str, Any], manager: str = "pd-test", *, dry_run: bool = False, force: bool = False
    ) -> Object:
        """Server-side apply; unknown fields are an error, as for kubectl."""
        query = {"fieldManager": manager, "fieldValidation": "Strict", "force": str(force).lower()}
        if dry_run:
            query["dryRun"] = "All"
        path = _path(body["kind"], body["metadata"].get("namespace"), body["metadata"]["name"])
        return self._object("PATCH", path, query, body, _APPLY)

    def patch(
        self, kind: str, name: str, namespace: str | None, patch: Mapping[str, Any], subresource: str = ""
    ) -> Object:
        """Merge-patch."""
        return self._object("PATCH", _path(kind, namespace, name, subresource), body=patch, content_type=_MERGE)

    def delete(
        self, kind: str, name: str, namespace: str | None = None, *, propagation: str = "Background", grace: int = -1
    ) -> None:
        """Delete an object and return at once; one that is gone already is fine."""
        query = {"propagationPolicy": propagation}
        if grace >= 0:
            query["gracePeriodSeconds"] = str(grace)
        try:
            self._object("DELETE", _path(kind, namespace, name), query)
        except RestError as error:
            if error.status != http.client.NOT_FOUND:
                raise

    def count(self, kind: str, namespace: str) -> int:
        """How many objects of a kind a namespace has: one is read, the API server tells how many more there are."""
        found = self._object("GET", _path(kind, namespace), {"limit": "1"})
        return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))

    def watch(self, kind: str, namespace: str, within: float) -> Iterator[tuple[str, Object]]:
        """What happens to objects of a kind (`ADDED`, `MODIFIED`, `DELETED`), those that exist first, for so long."""
        query = urlencode({"watch": "true", "timeoutSeconds": str(int(within))})
        connection = http.client.HTTPSConnection(
            self._access.host, self._access.port, timeout=within + self._timeout, context=self._tls
        )
        path = f"{_path(kind, namespace)}?{query}"
        try:
            connection.request("GET", path, headers={"Authorization": f"Bearer {self._access.token}"})
            response = connection.getresponse()
            if response.status >= http.client.BAD_REQUEST:
                raise RestError(response.status, "GET", path, _message(response.read()))
            for line in response:
                event = json.loads(line)
                yield event["type"], event["object"]
        finally:
            connection.close()

    def text(self, path: str) -> str:
        """What an address answers, as text (`/metrics`)."""
        return self._send("GET", path, None, _JSON).decode("utf-8")

    def _object(
        self,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Mapping[str, Any] | None = None,
        content_type: str = _JSON,
    ) -> Object:
        wanted = {key: value for key, value in (query or {}).items() if value}
        address = f"{path}?{urlencode(wanted)}" if wanted else path
        payload = None if body is None else json.dumps(body).encode("utf-8")
        answer: Object = json.loads(self._send(method, address, payload, content_type))
        return answer

    def _send(self, method: str, path: str, payload: bytes | None, content_type: str) -> bytes:
        try:
            status, content = self._once(method, path, payload, content_type)
        except (http.client.RemoteDisconnected, ConnectionResetError, BrokenPipeError, ssl.SSLEOFError):
            # the server closed a kept connection meanwhile; everything sent here may be sent twice
            status, content = self._once(method, path, payload, content_type)
        if status >= http.client.BAD_REQUEST:
            raise RestError(status, method, path, _message(content))
        return content

    def _once(self, method: str, path: str, payload: bytes | None, content_type: str) -> tuple[int, bytes]:
        headers = {"Authorization": f"Bearer {self._access.token}", "Content-Type": content_type}
        connection = self._connection()
        try:
            connection.request(method, path, body=payload, headers=headers)
            response = connection.getresponse()
            return response.status, response.read()
        except BaseException:
            connection.close()  # half a request must not be followed by another; it reconnects by itself
            raise

    def _connection(self) -> http.client.HTTPSConnection:
        """This thread's kept connection."""
        if not hasattr(self._local, "connection"):
            self._local.connection = http.client.HTTPSConnection(
                self._access.host, self._access.port, timeout=self._timeout, context=self._tls
            )
        connection: http.client.HTTPSConnection = self._local.connection
        return connection


def _path(kind: str, namespace: str | None, name: str | None = None, subresource: str = "") -> str:
    known = _KINDS[kind]
    scope = f"/namespaces/{namespace}" if known.namespaced and namespace else ""
    parts = [part for part in (name, subresource) if part]
    return "/".join([f"{known.root}{scope}/{known.plural}", *parts])


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip()[:500]
