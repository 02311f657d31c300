"""A small client of the lab's API server: what bringing a cluster up needs, over one kept connection."""

from __future__ import annotations

import http.client
import json
import ssl
from collections.abc import Mapping
from typing import Any, Self

from e2e.lab.connection import Connector, HttpConnection
from e2e.lab.kubeconfig import Access

Object = dict[str, Any]
FIELD_MANAGER = "pd-lab"


class ApiError(Exception):
    """The API server answered, but not with success."""

    def __init__(self, status: int, method: str, path: str, message: str) -> None:
        super().__init__(f"{method} {path}: {status} {message}")
        self.status = status


class Api:
    """Requests to one API server. Use as a context manager; not for use by several threads at once."""

    def __init__(self, access: Access, connector: Connector, timeout: float = 10.0) -> None:
        self._token = access.token
        tls = ssl.create_default_context(cadata=access.authority)
        self._connection = HttpConnection(access.host, access.port, connector, timeout, tls)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._connection.close()

    def get(self, path: str) -> Object:
        return self._request("GET", path)

    def items(self, path: str) -> list[Object]:
        """The items of a list, without paging: labs are small."""
        found: list[Object] = self._request("GET", path)["items"]
        return found

    def create(self, path: str, body: Object) -> Object:
        return self._request("POST", path, body)

    def apply(self, path: str, body: Object) -> Object:
        """Server-side apply, taking over fields that others own. JSON is YAML, so it may go in as such."""
        query = f"{path}?fieldManager={FIELD_MANAGER}&force=true"
        return self._request("PATCH", query, body, content_type="application/apply-patch+yaml")

    def merge(self, path: str, body: Object) -> Object:
        return self._request("PATCH", path, body, content_type="application/merge-patch+json")

    def delete(self, path: str) -> None:
        """Deletes an object; one that is gone already is fine."""
        try:
            self._request("DELETE", path)
        except ApiError as error:
            if error.status != http.client.NOT_FOUND:
                raise

    def exists(self, path: str) -> bool:
        try:
            self._request("GET", path)
        except ApiError as error:
            if error.status == http.client.NOT_FOUND:
                return False
            raise
        return True

    def _request(
        self, method: str, path: str, body: Object | None = None, content_type: str = "application/json"
    ) -> Object:
        headers = {"Authorization": f"Bearer {self._token}", "Content-Type": content_type}
        payload = None if body is None else json.dumps(body).encode("utf-8")
        try:
            response = self._send(method, path, payload, headers)
        except (http.client.RemoteDisconnected, ConnectionError):
            # the server closed an idle connection, or restarted: every call made here may be repeated
            response = self._send(method, path, payload, headers)
        content = response.read()
        if response.status >= http.client.BAD_REQUEST:
            raise ApiError(response.status, method, path, _message(content))
        answer: Object = json.loads(content)
        return answer

    def _send(
        self, method: str, path: str, payload: bytes | None, headers: Mapping[str, str]
    ) -> http.client.HTTPResponse:
        try:
            self._connection.request(method, path, body=payload, headers=dict(headers))
            return self._connection.getresponse()
        except BaseException:
            self.close()  # half a request must not be followed by another
            raise


def _message(content: bytes) -> str:
    try:
        return str(json.loads(content)["message"])
    except (ValueError, KeyError, TypeError):
        return content.decode("utf-8", "replace").strip()[:200]
