"""The API server through `kubernetes.aio`: server-side apply, status, delete, metadata, lists.

Objects travel as plain dictionaries: decoding thousands of them into typed models would cost more than all of the
planning, and planning reads few fields. The client brings what is hard: credentials and their renewal, TLS, proxies.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Final
from urllib.parse import urlencode

import aiohttp
from kubernetes.aio.client.api_client import ApiClient

from pd_operator.adapters.answers import failure_of
from pd_operator.api import labels
from pd_operator.reconcile.errors import ClusterError, TransientError
from pd_operator.reconcile.instruments import Instruments
from pd_operator.reconcile.kinds import BY_NAME, SERVICE_KIND, Kind
from pd_operator.reconcile.ports import Clock, Page, Raw

_APPLY: Final = "application/apply-patch+yaml"
_MERGE: Final = "application/merge-patch+json"
_JSON: Final = "application/json"

_TIMEOUT: Final = aiohttp.ClientTimeout(total=20.0, sock_connect=5.0)
#: Objects in one page of a list: parsed, a page of pods takes some 10 MB.
_PAGE_SIZE: Final = 200
#: Tries of one request before the whole run is put off; every request here may be repeated without harm.
_TRIES: Final = 3
_FIRST_WAIT_SECONDS: Final = 0.2
#: A longer wait than this is left to the queue, so that no worker sits on it.
_LONGEST_WAIT_SECONDS: Final = 5.0


class KubernetesCluster:
    """`Cluster` over a connected client."""

    def __init__(self, client: ApiClient, clock: Clock, meters: Instruments) -> None:
        self._client = client
        self._clock = clock
        self._meters = meters

    async def apply(self, body: Raw, *, force: bool) -> Raw:
        """Server-side apply; creates the object when it is absent."""
        kind, metadata = BY_NAME[body["kind"]], body["metadata"]
        return await self._apply(kind, kind.path(metadata["namespace"], metadata["name"]), body, force=force)

    async def apply_status(self, namespace: str, name: str, status: Raw) -> Raw:
        """Server-side apply of the status, whole: a field that is left out is removed."""
        body = {
            "apiVersion": SERVICE_KIND.api_version,
            "kind": SERVICE_KIND.name,
            "metadata": {"name": name, "namespace": namespace},
            "status": status,
        }
        return await self._apply(SERVICE_KIND, f"{SERVICE_KIND.path(namespace, name)}/status", body, force=True)

    async def get(self, kind: Kind, namespace: str, name: str) -> Raw:
        """One object."""
        return await self._request("get", kind.name, "GET", kind.path(namespace, name))

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str | None) -> None:
        """Delete in the background: dependents are collected afterwards."""
        options: dict[str, Any] = {"apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background"}
        if uid:
            options["preconditions"] = {"uid": uid}
        await self._request("delete", kind.name, "DELETE", kind.path(namespace, name), body=options)

    async def patch_metadata(
        self, kind: Kind, namespace: str, name: str, labels: Mapping[str, str | None], notes: Mapping[str, str | None]
    ) -> Raw:
        """Merge-patch: in it, null removes a key."""
        metadata = {part: dict(values) for part, values in (("labels", labels), ("annotations", notes)) if values}
        return await self._request(
            "patch", kind.name, "PATCH", kind.path(namespace, name), body={"metadata": metadata}, content_type=_MERGE
        )

    async def pages(self, kind: Kind, namespace: str | None) -> AsyncIterator[Page]:
        """Every object, in pages."""
        query = {"limit": str(_PAGE_SIZE)}
        if kind.labelled:
            query["labelSelector"] = labels.SELECTOR_OF_CHILDREN
        while True:
            answer = await self._request("list", kind.name, "GET", kind.path(namespace), query)
            metadata = answer.get("metadata") or {}
            yield Page(answer.get("items") or (), int(metadata.get("resourceVersion") or 0))
            if not metadata.get("continue"):
                return
            query["continue"] = metadata["continue"]

    async def events_about(self, kind: Kind, namespace: str, name: str) -> Sequence[Raw]:
        """Events of one object, through the core API, which shows those of both APIs."""
        selector = f"involvedObject.kind={kind.name},involvedObject.name={name}"
        path = f"/api/v1/namespaces/{namespace}/events"
        answer = await self._request("list", "Event", "GET", path, {"fieldSelector": selector, "limit": "50"})
        return answer.get("items") or ()

    async def create_event(self, namespace: str, body: Raw) -> None:
        """Post an Event."""
        await self._request(
            "create", "Event", "POST", f"/apis/events.k8s.io/v1/namespaces/{namespace}/events", body=body
        )

    async def may(self, attributes: Mapping[str, str]) -> bool:
        """Whether the operator is allowed to do something (SelfSubjectAccessReview)."""
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": dict(attributes)},
        }
        path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = await self._request("create", "SelfSubjectAccessReview", "POST", path, body=body)
        return bool(answer["status"].get("allowed"))

    async def serves(self, kind: Kind) -> bool:
        """Whether the API server serves a kind; for a custom resource, whether its definition is established."""
        answer = await self._request("get", "APIResourceList", "GET", f"/apis/{kind.group}/{kind.version}")
        return any(resource.get("name") == kind.plural for resource in answer.get("resources") or ())

    async def _apply(self, kind: Kind, path: str, body: Raw, *, force: bool) -> Raw:
        query = {"fieldManager": labels.MANAGER, "force": "true" if force else "false"}
        return await self._request("apply", kind.name, "PATCH", path, query, body, _APPLY)

    async def _request(
        self,
        verb: str,
        kind: str,
        method: str,
        path: str,
        query: Mapping[str, str] | None = None,
        body: Raw | None = None,
        content_type: str = _JSON,
    ) -> dict[str, Any]:
        url = f"{path}?{urlencode(query)}" if query else path
        for attempt in range(_TRIES):
            try:
                return await self._once(verb, kind, method, url, body, content_type)
            except TransientError as error:
                backoff = _FIRST_WAIT_SECONDS * 2**attempt * random.uniform(0.8, 1.2)  # noqa: S311 (jitter)
                wait = max(error.retry_after or 0.0, backoff)
                if not error.repeatable or attempt == _TRIES - 1 or wait > _LONGEST_WAIT_SECONDS:
                    raise
                await self._clock.sleep(wait)
        raise AssertionError("the last try either returns or raises")

    async def _once(
        self, verb: str, kind: str, method: str, url: str, body: Raw | None, content_type: str
    ) -> dict[str, Any]:
        headers = {
            "Accept": _JSON,
            "Content-Type": content_type,
            "User-Agent": self._client.user_agent,
        }
        await self._client.update_params_for_auth(headers, [], ["BearerToken"], url, method, body)
        started = self._clock.monotonic()
        code = "none"
        try:
            response = await self._client.rest_client.request(  # type: ignore[no-untyped-call]
                method, self._client.configuration.host + url, headers=headers, body=body, _request_timeout=_TIMEOUT
            )
            data = await response.read()
            code = str(response.status)
        except (aiohttp.ClientError, TimeoutError, asyncio.IncompleteReadError, OSError) as error:
            raise TransientError(
                f"{method} {url}: {type(error).__name__}: {error or 'no answer in time'}", repeatable=True
            ) from error
        finally:
            self._meters.api_requests.labels(verb=verb, kind=kind, code=code).inc()
            self._meters.api_seconds.labels(verb=verb).observe(self._clock.monotonic() - started)
        if response.status >= 400:
            raise failure_of(response.status, data, response.headers)
        answer = json.loads(data)
        if not isinstance(answer, dict):
            raise ClusterError(f"{method} {url}: the answer is no object")
        return answer
