"""A lab at work: its components' processes, how to enter its namespaces and how to reach its addresses."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass

from e2e.lab import processes
from e2e.lab.api import Api
from e2e.lab.components import Component
from e2e.lab.connection import Connector, answers
from e2e.lab.errors import LabError
from e2e.lab.kubeconfig import read
from e2e.lab.processes import Process
from e2e.lab.spec import LabSpec

READY_TIMEOUT_SECONDS = 90.0
STOP_TIMEOUT_SECONDS = 10.0

Node = int | None
"""Index of a real node; 0 also stands for the control plane, and None for the host outside."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """Starts, waits for and stops components of one lab."""

    spec: LabSpec
    enter: Callable[[Node], tuple[str, ...]]
    """The command prefix that enters a node's namespaces; empty where there are none."""
    connector: Callable[[Node], Connector]
    """How to connect as a process on that node would."""

    def processes(self) -> list[Process]:
        return processes.find(self.spec.directory)

    def running(self, component: Component, among: list[Process] | None = None) -> Process | None:
        known = self.processes() if among is None else among
        return processes.main_process(known, component.name, component.argv[0])

    def start(self, component: Component) -> bool:
        """Starts it unless it runs already; says whether it did."""
        if self.running(component):
            return False
        processes.launch(
            component.argv,
            directory=self.spec.directory,
            component=component.name,
            log=self.spec.log(component.name),
            enter=self.enter(component.node),
            environment=component.environment,
        )
        return True

    def wait(self, component: Component, timeout: float = READY_TIMEOUT_SECONDS) -> None:
        """Returns once the component's health page answers; raises LabError with its log's end otherwise."""
        probe = component.probe
        if probe is not None:
            self.wait_for(component, lambda: answers(probe, self.connector(component.node)), timeout)

    def wait_for(self, component: Component, ready: Callable[[], bool], timeout: float) -> None:
        processes.wait_until(
            ready,
            what=component.name,
            timeout=timeout,
            alive=lambda: self.running(component) is not None,
            log=self.spec.log(component.name),
        )

    def stop(self, component: Component, number: signal.Signals) -> bool:
        """Signals it and waits for its end; says whether it ran. What ignores the signal is killed."""
        process = self.running(component)
        if process is None:
            return False
        processes.send(process, self.spec.directory, number)
        deadline = time.monotonic() + STOP_TIMEOUT_SECONDS
        while self.running(component) is not None:
            if time.monotonic() > deadline:
                processes.send(process, self.spec.directory, signal.SIGKILL)
                deadline += STOP_TIMEOUT_SECONDS
                if number is signal.SIGKILL:
                    raise LabError(f"{component.name} (pid {process.pid}) does not end, even by SIGKILL")
                number = signal.SIGKILL
            time.sleep(processes.POLL_SECONDS)
        return True

    def api(self) -> Api:
        """A client with the administrator's rights."""
        return Api(read(self.spec.kubeconfig), self.connector(0))
