"""Connections into a lab from outside it.

A socket belongs to the network namespace in which it was made, whoever uses it later. So one visit of the calling
thread to a lab's namespace is enough to talk to any address inside, without a helper process there.
"""

from __future__ import annotations

import ctypes
import http.client
import os
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

CLONE_NEWNET = 0x40000000  # linux/sched.h

Connector = Callable[[str, int, float], socket.socket]
"""(host, port, timeout in seconds) -> connected socket; raises OSError."""


def direct(host: str, port: int, timeout: float) -> socket.socket:
    """Connects from the caller's own network."""
    return socket.create_connection((host, port), timeout)


def inside(pid: int) -> Connector:
    """Connects from the network namespace of process `pid`. Needs CAP_SYS_ADMIN."""

    def connect(host: str, port: int, timeout: float) -> socket.socket:
        with network_of(pid):
            connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.settimeout(timeout)
            connection.connect((host, port))
        except BaseException:
            connection.close()
            raise
        return connection

    return connect


@contextmanager
def network_of(pid: int) -> Iterator[None]:
    """The calling thread, and no other, is in the network namespace of process `pid`."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY | os.O_CLOEXEC)
    try:
        there = os.open(f"/proc/{pid}/ns/net", os.O_RDONLY | os.O_CLOEXEC)
        try:
            _setns(there)
        finally:
            os.close(there)
        try:
            yield
        finally:
            _setns(home)
    finally:
        os.close(home)


def _setns(descriptor: int) -> None:
    # os.setns exists from Python 3.12 on
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.setns(descriptor, CLONE_NEWNET) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"setns: {os.strerror(number)}")


class HttpConnection(http.client.HTTPConnection):
    """HTTP, or HTTPS when `tls` is given, over sockets that `connector` makes. Reconnects by itself."""

    def __init__(
        self, host: str, port: int, connector: Connector, timeout: float, tls: ssl.SSLContext | None = None
    ) -> None:
        super().__init__(host, port, timeout=timeout)
        self._connector = connector
        self._seconds = timeout
        self._tls = tls

    def connect(self) -> None:
        raw = self._connector(self.host, self.port, self._seconds)
        self.sock = self._tls.wrap_socket(raw, server_hostname=self.host) if self._tls else raw


@dataclass(frozen=True, slots=True)
class Probe:
    """A health page that answers 200 once its server is ready."""

    host: str
    port: int
    path: str
    tls: bool = False


def answers(probe: Probe, connector: Connector, timeout: float = 2.0) -> bool:
    """Whether the page answers 200 now. Certificates are not verified: several components sign their own."""
    tls = _unverified() if probe.tls else None
    connection = HttpConnection(probe.host, probe.port, connector, timeout, tls)
    try:
        connection.request("GET", probe.path)
        return connection.getresponse().status == http.client.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def _unverified() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context
