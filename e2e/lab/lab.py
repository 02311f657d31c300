"""A lab as its users handle it: up, down, components, images. The command line and test fixtures are thin over this."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from e2e.lab import (
    binaries,
    cgroups,
    components,
    control_plane,
    debian,
    full,
    host,
    images,
    namespaces,
    node_components,
    processes,
    real_nodes,
    state,
)
from e2e.lab.components import Component
from e2e.lab.connection import direct
from e2e.lab.errors import LabError
from e2e.lab.node_components import REPOSITORY
from e2e.lab.progress import Progress
from e2e.lab.runtime import Runtime
from e2e.lab.spec import LabSpec, Profile, check_name
from e2e.lab.state import State

BUILD = REPOSITORY / "build"
PAUSE = "pause"


@dataclass(frozen=True, slots=True)
class Size:
    """What `up` is asked for."""

    profile: Profile = Profile.FULL
    nodes: int = 1
    gpu_nodes: int = 0


class Lab:
    """One lab, up or not, known by its folder."""

    def __init__(self, directory: Path, progress: Progress | None = None) -> None:
        self.directory = directory.resolve()
        self._progress = progress or Progress()

    @classmethod
    def named(cls, name: str, progress: Progress | None = None) -> Lab:
        """The lab `name` of this checkout. Raises LabError for a name that is none, such as a path."""
        check_name(name)
        return cls(BUILD / name, progress)

    @property
    def name(self) -> str:
        return self.directory.name

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig, which works from the host and from inside the lab."""
        return self.directory / "kubeconfig"

    def up(self, size: Size) -> None:
        """Brings the lab up as asked; a running one is completed: dead components start, fake nodes are adjusted.

        Raises LabError when something is missing or fails, and when the lab runs with another profile or number of
        real nodes.
        """
        wanted = LabSpec(self.directory, size.profile, size.nodes, size.gpu_nodes)
        if wanted.full:
            host.check_rights()
        with state.locked(self.directory):
            known = state.load(self.directory)
            if known is not None and known.complete and _runs(known.spec):
                self._complete(known, wanted)
            else:
                self._start_afresh(known, wanted)

    def down(self, *, wipe: bool = False) -> int:
        """Ends everything the lab runs and returns the number of processes ended. Its data stays unless `wipe`d.

        Safe to repeat, and safe after anything that was interrupted.
        """
        if not self.directory.exists():
            return 0
        with state.locked(self.directory):
            ended = self._end()
            if wipe:
                for entry in self.directory.iterdir():
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        if wipe:
            self.directory.rmdir()
        return ended

    def state(self) -> State:
        """The lab as it was brought up last. Raises LabError when it never was."""
        known = state.load(self.directory)
        if known is None:
            raise LabError(f"there is no lab {self.name!r} in {self.directory.parent}; `up` makes one")
        return known

    def runtime(self) -> Runtime:
        return _runtime(self.state().spec)

    def components(self) -> list[Component]:
        """Every component of the lab, whether it runs or not."""
        known = self.state()
        self._check_programs(known)
        return _components(known.spec, known.programs)

    def start(self, name: str) -> bool:
        """Starts one component and waits until it is ready; says whether it was down."""
        with state.locked(self.directory):
            component, runtime = self._component(name), self.runtime()
            since = real_nodes.now()
            started = runtime.start(component)
            runtime.wait(component)
            if name.startswith(node_components.CONTAINERD):
                full.wait_runtime(runtime, component)
            if started and name.startswith(node_components.KUBELET):
                with runtime.api() as api:
                    real_nodes.wait_ready(runtime, api, since)
            return started

    def stop(self, name: str, number: signal.Signals = signal.SIGTERM) -> bool:
        """Stops one component by a signal; says whether it ran. It stays down until `start` or `up`."""
        with state.locked(self.directory):
            return self.runtime().stop(self._component(name), number)

    def load(self, archive: Path, nodes: Sequence[int] | None = None, alias: str | None = None) -> None:
        """Imports an image from a docker-archive file into real nodes, all of them if none are named.

        `alias` is one more name for it there, in full: the one that a manifest uses.
        """
        spec = self.state().spec
        chosen = list(spec.node_indexes if nodes is None else nodes)
        if not spec.full:
            raise LabError(f"the lab {self.name!r} has no real nodes to load an image into (profile {spec.profile})")
        if unknown := [node for node in chosen if node not in spec.node_indexes]:
            raise LabError(f"the lab {self.name!r} has no node {unknown[0]}; it has 0 to {spec.nodes - 1}")
        real_nodes.load(self.runtime(), archive, chosen)
        if alias is not None:
            real_nodes.tag(self.runtime(), real_nodes.contents(archive)[0], alias, chosen)

    def command(self, argv: Sequence[str], node: int = 0) -> list[str]:
        """`argv` as it must be run to run inside the lab, on one of its nodes; use with `environment`."""
        spec = self.state().spec
        if node and node not in spec.node_indexes:
            raise LabError(f"the lab {self.name!r} has no node {node}")
        return [*self.runtime().enter(node), *argv]

    def environment(self, base: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The environment for commands on the lab: its kubeconfig, and the lab's programs on the path."""
        programs = self.state().programs
        own = {str(programs[name].parent) for name in binaries.FULL if name in programs}
        path = os.pathsep.join([*sorted(own), host.search_path(base)])
        return {**base, "KUBECONFIG": str(self.kubeconfig), "PATH": path}

    def _component(self, name: str) -> Component:
        known = {component.name: component for component in self.components()}
        if name not in known:
            raise LabError(f"the lab {self.name!r} has no component {name!r}; it has {', '.join(known)}")
        return known[name]

    def _start_afresh(self, known: State | None, wanted: LabSpec) -> None:
        self._end()
        if known is not None and known.spec.profile is not wanted.profile:
            self._progress.say(f"profile was {known.spec.profile}: the lab's earlier data is removed")
            shutil.rmtree(wanted.data, ignore_errors=True)
        spec = wanted.with_ports(known.spec.ports if known else wanted.ports)
        spec = spec.with_ports(state.choose_ports(spec))
        programs = self._programs(spec)
        state.save(State(spec, programs, complete=False))
        pause = self._pause(spec)
        with self._progress.step(f"starting lab {self.name} ({_describe(spec)})"):
            control_plane.write_files(spec)
            if pause is not None:
                full.write_files(spec, pause.reference, programs)
                full.create_namespaces(spec)
            _launch(spec, programs, pause)
        state.save(State(spec, programs, complete=True))

    def _complete(self, known: State, wanted: LabSpec) -> None:
        spec = known.spec
        if (spec.profile, spec.nodes) != (wanted.profile, wanted.nodes):
            raise LabError(
                f"the lab {self.name!r} is up as {_describe(spec)}, not as {_describe(wanted)}; `down` it first"
            )
        self._check_programs(known)
        spec = replace(spec, gpu_nodes=wanted.gpu_nodes)
        state.save(replace(known, spec=spec))
        started = _launch(spec, known.programs, self._pause(spec))
        restarted = f"; restarted {', '.join(started)}" if started else ""
        self._progress.say(f"lab {self.name} was up already ({_describe(spec)}){restarted}")

    def _programs(self, spec: LabSpec) -> dict[str, Path]:
        if not spec.full:
            return binaries.ensure(binaries.CONTROL_PLANE, self._progress)
        debian.ensure(debian.NODE, self._progress)
        system = {name: debian.find(name) for name in ("containerd", full.CNI_PLUGIN)}
        built = binaries.ensure(binaries.FULL, self._progress)
        return built | {name: path for name, path in system.items() if path is not None}

    def _pause(self, spec: LabSpec) -> images.Archive | None:
        """The image that holds pods' namespaces; None for a lab whose pods do not run."""
        return images.ensure(PAUSE, self._progress) if spec.full else None

    def _check_programs(self, known: State) -> None:
        """Raises LabError for a lab that another version of this checkout brought up, with other programs."""
        needed = binaries.FULL if known.spec.full else binaries.CONTROL_PLANE
        if gone := [name for name in needed if name not in known.programs or not known.programs[name].exists()]:
            raise LabError(
                f"the lab {self.name!r} was brought up by another version of this checkout (its {gone[0]} is not "
                "there): `down` it, then `up` it again"
            )

    def _end(self) -> int:
        """Ends and removes what a lab has outside its folder, whatever is known of it."""
        ended = processes.end_all(self.directory)
        cgroups.remove(self.directory)
        return ended


def _launch(spec: LabSpec, programs: Mapping[str, Path], pause: images.Archive | None) -> list[str]:
    """Starts what does not run and waits for all of it; returns the names of what was started."""
    runtime = _runtime(spec)
    started = full.start_runtimes(runtime, programs) if spec.full else []
    started += control_plane.start(runtime, programs)
    with runtime.api() as api:
        if pause is not None:
            started += full.start(runtime, api, programs, pause.path)
        control_plane.populate(runtime, api)
    return started


def _runs(spec: LabSpec) -> bool:
    """Whether there is something to complete: with a namespace gone, all that was in it is gone, too."""
    running = processes.find(spec.directory)
    if spec.full:
        return all(namespaces.holder_process(spec, node, running) for node in spec.node_indexes)
    return bool(running)


def _runtime(spec: LabSpec) -> Runtime:
    if spec.full:
        return namespaces.runtime(spec)
    return Runtime(spec, enter=lambda _: (), connector=lambda _: direct)


def _components(spec: LabSpec, programs: Mapping[str, Path]) -> list[Component]:
    found = components.control_plane(spec, programs)
    return found + full.components(spec, programs) if spec.full else found


def _describe(spec: LabSpec) -> str:
    real = f", {spec.nodes} real node{'s' if spec.nodes > 1 else ''}" if spec.full else ""
    return f"{spec.profile}{real}, {spec.gpu_nodes} fake GPU nodes"
