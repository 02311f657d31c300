"""Everything a service needs to run for real: a lab, the images in its nodes, the operator from this checkout.

The demo and the scenarios both start here, so what a person sees is what is tested.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml

from e2e.install import Release
from e2e.kubectl import Kubectl
from e2e.lab import binaries, images
from e2e.lab.lab import Lab, Size
from e2e.lab.progress import Progress

EXAMPLES: Final = Path(__file__).resolve().parents[1] / "examples"
ENGINE: Final = "sglang-cpu"
ROUTER: Final = "router"

#: The lab's Prometheus scrapes every 2 s; the operator asks often and looks back a short time, so that a demo and a
#: test see in a minute what production sees in ten.
QUICK_METRICS: Final = ("prometheus.pollIntervalSeconds=5", "prometheus.windowSeconds=20")


@dataclass(frozen=True, slots=True)
class Stack:
    """A running lab with the operator on it.

    Attributes:
        images: References of the engine's and the router's image, as the lab's nodes know them.
    """

    lab: Lab
    kubectl: Kubectl
    images: Mapping[str, str]

    def service(self, name: str, **spec: Any) -> dict[str, Any]:
        """The example for the CPU with this lab's images, named `name`, and `spec` merged over its spec."""
        body: dict[str, Any] = yaml.safe_load((EXAMPLES / "cpu-demo.yaml").read_text(encoding="utf-8"))
        body["metadata"]["name"] = name
        pulled = {
            "engine": {"image": self.images[ENGINE], "imagePullPolicy": "Never"},
            "router": {"image": self.images[ROUTER], "imagePullPolicy": "Never"},
        }
        return {**body, "spec": merged(merged(body["spec"], pulled), spec)}

    def python(self, module: str, *arguments: str) -> list[str]:
        """The command that runs a module of this checkout inside the lab, where Services and pods can be reached."""
        return self.lab.command([sys.executable, "-m", module, *arguments])

    def namespace(self, name: str) -> Kubectl:
        """Create a namespace that admits only restricted pods, and return a kubectl for it."""
        enforce = {"pod-security.kubernetes.io/enforce": "restricted"}
        self.kubectl.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": enforce}})
        return self.kubectl.in_namespace(name)


def bring_up(name: str, size: Size, progress: Progress, settings: Sequence[str] = QUICK_METRICS) -> Stack:
    """Start the lab `name`, build and load the images, and install the operator; each step only if it is needed.

    Raises:
        LabError: Something is missing or failed; the message says what to do.
    """
    lab = Lab.named(name, progress)
    lab.up(size)
    references: dict[str, str] = {}
    for image in (ROUTER, ENGINE):
        references[image], archive = images.ensure(image, progress)
        with progress.step(f"Load {references[image]} into the lab's nodes"):
            lab.load(archive)
    Release(lab, progress).install(settings)
    kubectl = Kubectl(binaries.ensure(["kubectl"], progress)["kubectl"], lab.kubeconfig)
    return Stack(lab, kubectl, references)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """`over` merged into `base`, objects member by member; a member that is None in `over` goes."""
    out = dict(base)
    for key, value in over.items():
        present = out.get(key)
        if value is None:
            out.pop(key, None)
        elif isinstance(value, Mapping):
            out[key] = merged(present if isinstance(present, Mapping) else {}, value)
        else:
            out[key] = value
    return out
