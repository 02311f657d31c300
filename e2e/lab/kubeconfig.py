"""Kubeconfig files: writing the lab's own, reading the server, authority and token back."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import yaml


@dataclass(frozen=True, slots=True)
class Access:
    """How a client reaches an API server that it meets with a token."""

    host: str
    port: int
    authority: str
    """PEM of the certificate authority."""
    token: str


def render(context: str, user: str, server: str, authority: bytes, token: str) -> bytes:
    """A self-contained kubeconfig with one context."""
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [
            {
                "name": context,
                "cluster": {
                    "server": server,
                    "certificate-authority-data": base64.b64encode(authority).decode("ascii"),
                },
            }
        ],
        "users": [{"name": user, "user": {"token": token}}],
        "contexts": [{"name": context, "context": {"cluster": context, "user": user}}],
        "current-context": context,
    }
    return yaml.safe_dump(document, sort_keys=False).encode("utf-8")


def read(path: Path) -> Access:
    """Access through a kubeconfig that `render` wrote."""
    document: dict[str, Any] = yaml.safe_load(path.read_text(encoding="utf-8"))
    cluster = document["clusters"][0]["cluster"]
    server = urlsplit(cluster["server"])
    return Access(
        host=server.hostname or "",
        port=server.port or 443,
        authority=base64.b64decode(cluster["certificate-authority-data"]).decode("ascii"),
        token=document["users"][0]["user"]["token"],
    )
