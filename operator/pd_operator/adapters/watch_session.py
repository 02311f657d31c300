"""The HTTP session that kopf watches through: the operator's own credentials, and a pulse taken of every watch."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Final

import aiohttp
import kopf
from kubernetes.aio.client.api_client import ApiClient

from pd_operator.reconcile.pulse import Pulse

#: Bytes of one line of a watch: a whole object, at most 1.5 MB in etcd.
_BUFFER: Final = 2**21


async def watch_session(client: ApiClient, pulse: Pulse) -> kopf.AiohttpSession:
    """A new session for kopf with the present credentials; kopf asks for another one when they are refused."""
    headers: dict[str, str] = {"User-Agent": client.user_agent}
    await client.update_params_for_auth(headers, [], ["BearerToken"], "/", "GET", None)
    session = aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, ssl=client.rest_client.ssl_context),
        headers=headers,
        trace_configs=[_trace(pulse)],
        trust_env=True,
        proxy=client.configuration.proxy,
        read_bufsize=_BUFFER,
    )
    return kopf.AiohttpSession(server=client.configuration.host, aiohttp_session=session)


def _trace(pulse: Pulse) -> aiohttp.TraceConfig:
    async def on_start(
        _session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestStartParams
    ) -> None:
        if "watch" in params.url.query:
            pulse.tried(params.url.path)

    async def on_end(
        _session: aiohttp.ClientSession, _context: SimpleNamespace, params: aiohttp.TraceRequestEndParams
    ) -> None:
        if "watch" in params.url.query and params.response.status == 200:
            pulse.begun(params.url.path)

    trace = aiohttp.TraceConfig()
    trace.on_request_start.append(on_start)
    trace.on_request_end.append(on_end)
    return trace
