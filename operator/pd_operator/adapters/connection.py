"""How to reach the API server: inside a pod, or by a kubeconfig."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from kubernetes.aio.client.api_client import ApiClient
from kubernetes.aio.client.configuration import Configuration
from kubernetes.aio.config import load_incluster_config, load_kube_config
from kubernetes.aio.config.config_exception import ConfigException

from pd_operator import __version__

_DEFAULT_KUBECONFIG: Final = "~/.kube/config"
#: Requests under way at once. The API server's own fairness queues begin to push back not far above.
_MOST_REQUESTS: Final = 32


class ConnectionProblem(Exception):  # noqa: N818 (it is told to people as it is)
    """There is no usable way to the API server."""


async def connect(kubeconfig: str | None) -> ApiClient:
    """A client for the cluster that the operator runs in, or of a kubeconfig.

    Args:
        kubeconfig: Path of a kubeconfig, which then wins over the pod's own service account.

    Raises:
        ConnectionProblem: Neither works.
    """
    configuration = Configuration()
    try:
        if kubeconfig or not os.environ.get("KUBERNETES_SERVICE_HOST"):
            path = _existing(kubeconfig or _DEFAULT_KUBECONFIG)
            await load_kube_config(config_file=path, client_configuration=configuration)  # type: ignore[no-untyped-call]
        else:
            load_incluster_config(client_configuration=configuration)  # type: ignore[no-untyped-call]
    except ConfigException as error:
        where = kubeconfig or "the pod's service account"
        raise ConnectionProblem(f"{where} cannot be used to reach the API server: {error}") from error
    configuration.connection_pool_maxsize = _MOST_REQUESTS
    client = ApiClient(configuration)
    client.user_agent = f"pd-operator/{__version__}"
    return client


def _existing(kubeconfig: str) -> str:
    path = Path(kubeconfig).expanduser()
    if not path.is_file():
        raise ConnectionProblem(
            f"no cluster to talk to: {path} does not exist and this is not a pod: "
            "set KUBECONFIG (or --kubeconfig) to a kubeconfig file"
        )
    return str(path)
