"""Carries loopback connections of the host into a lab's namespaces: `python -m e2e.lab.gateway PID PORT…`.

So kubectl, a browser and an operator run from the checkout reach a lab without entering it. Ports are the same on
both sides; listeners are on 127.0.0.1 only.
"""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Sequence

from e2e.lab.connection import network_of

CHUNK_BYTES = 64 * 1024


async def serve(pid: int, ports: Sequence[int]) -> None:
    """Forwards `ports` to loopback in the network namespace of process `pid`, for ever."""
    servers = [await asyncio.start_server(_Forward(pid, port), "127.0.0.1", port) for port in ports]
    await asyncio.gather(*(server.serve_forever() for server in servers))


class _Forward:
    """Handler of one listener's connections."""

    def __init__(self, pid: int, port: int) -> None:
        self._pid = pid
        self._port = port

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            inner_reader, inner_writer = await self._connect()
        except OSError as error:
            # the component inside is down: the client sees its connection closed, as it would without a gateway
            print(f"port {self._port}: {error}", file=sys.stderr, flush=True)
            writer.close()
            return
        try:
            await asyncio.gather(_pump(reader, inner_writer), _pump(inner_reader, writer))
        finally:
            inner_writer.close()
            writer.close()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        with network_of(self._pid):
            inner = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            inner.setblocking(False)
            await asyncio.get_running_loop().sock_connect(inner, ("127.0.0.1", self._port))
        except BaseException:
            inner.close()
            raise
        return await asyncio.open_connection(sock=inner)


async def _pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
    """Copies until the source ends, then tells the sink; a broken connection ends this direction only."""
    try:
        while chunk := await source.read(CHUNK_BYTES):
            sink.write(chunk)
            await sink.drain()
        if sink.can_write_eof():
            sink.write_eof()
    except ConnectionError:
        sink.close()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), [int(port) for port in sys.argv[2:]]))
