"""The chart of this checkout on a lab: `python -m e2e.install --name LAB [--set KEY=VALUE …]`.

Safe to repeat: the image is built and loaded only when it changed, and the release is upgraded.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from e2e.lab import binaries, external, images, prometheus
from e2e.lab.errors import LabError
from e2e.lab.external import ExternalCluster
from e2e.lab.lab import BUILD, Lab
from e2e.lab.progress import Progress

CHART = Path(__file__).resolve().parents[1] / "helm" / "pd-operator"
RELEASE = "pd-operator"
NAMESPACE = "pd-system"
IMAGE = "operator"
TIMEOUT = "3m"
DEFAULT_IMAGE = f"docker.io/library/pd-operator:{yaml.safe_load((CHART / 'Chart.yaml').read_text())['appVersion']}"

Cluster = Lab | ExternalCluster


@dataclass(frozen=True, slots=True)
class Release:
    """One release of the chart on one cluster."""

    cluster: Cluster
    progress: Progress
    name: str = RELEASE
    namespace: str = NAMESPACE
    chart: Path = CHART

    @property
    def log(self) -> Path:
        """What helm said last, with the chart's notes."""
        return self.cluster.directory / "logs" / f"helm-{self.name}.log"

    def install(self, settings: Sequence[str] = ()) -> None:
        """Installs or upgrades the chart and waits until the operator is ready; `settings` are helm's `--set`.

        Raises LabError when it does not get ready, after printing what its pods say.
        """
        chosen = [*self._defaults(settings), *settings]
        command = [
            "upgrade",
            "--install",
            self.name,
            str(self.chart),
            "--namespace",
            self.namespace,
            "--create-namespace",
        ]
        command += [part for setting in chosen for part in ("--set", setting)]
        try:
            self.progress.run(
                f"Install the chart as {self.name} in {self.namespace}",
                [self._program("helm"), *command, "--wait", "--timeout", TIMEOUT],
                env=self.cluster.environment(),
                log=self.log,
                fix="see above; the same command can be run again",
            )
        except LabError:
            self._explain()
            raise

    def uninstall(self) -> None:
        """Removes the release. The CRD and the services stay; a release that is not there is fine."""
        self.progress.run(
            f"Uninstall {self.name}",
            [
                *(self._program("helm"), "uninstall", self.name, "--namespace", self.namespace),
                *("--ignore-not-found", "--wait", "--timeout", TIMEOUT),
            ],
            env=self.cluster.environment(),
            log=self.log,
            fix="see above; the same command can be run again",
        )

    def _defaults(self, settings: Sequence[str]) -> list[str]:
        """The image of this checkout, unless another one was asked for, and the lab's Prometheus."""
        image_given = any(setting.startswith("image.repository=") for setting in settings)
        if isinstance(self.cluster, ExternalCluster):
            if not image_given:
                raise LabError(
                    f"{self.cluster.context} is an external cluster, into which no image can be loaded from here: push "
                    "the operator's image where it can pull it and add --set image.repository=… --set image.tag=…"
                )
            return []
        if not self.cluster.state().spec.full:
            return []  # fake nodes run any image, and nothing serves metrics there
        found = [f"prometheus.url={prometheus.URL}"]
        if not image_given:
            repository, tag = self._load(self.cluster)
            found += [f"image.repository={repository}", f"image.tag={tag}", "image.pullPolicy=Never"]
        return found

    def _load(self, lab: Lab) -> tuple[str, str]:
        reference, archive = images.ensure(IMAGE, self.progress)
        with self.progress.step(f"Load {reference} into the lab's nodes"):
            # with the name of the chart's defaults too, so that a plain `helm install` works on a lab
            lab.load(archive, alias=DEFAULT_IMAGE)
        repository, _, tag = reference.rpartition(":")
        return repository, tag

    def _explain(self) -> None:
        """What the operator's pods look like and say, for the person who waited for them in vain."""
        selector = f"--selector=app.kubernetes.io/instance={self.name}"
        for command in (
            ("get", "pods", selector, "--output=wide"),
            ("get", "events", "--sort-by=.lastTimestamp", "--field-selector=type=Warning"),
            ("logs", selector, "--tail=30", "--all-containers"),
        ):
            arguments = [self._program("kubectl"), "--namespace", self.namespace, *command]
            # its own error, say that there are no pods, is part of the explanation
            subprocess.run(arguments, env=self.cluster.environment(), stdout=sys.stderr, check=False, timeout=60)

    def _program(self, name: str) -> str:
        return str(binaries.ensure([name], self.progress)[name])


def cluster(name: str, progress: Progress) -> Cluster:
    """The lab or external cluster that `name` stands for."""
    return external.load(BUILD / name) or Lab.named(name, progress)


def main(arguments: Sequence[str] | None = None) -> int:
    """Problems that the person can solve are one line on standard error, and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m e2e.install", description=__doc__.splitlines()[0])
    parser.add_argument("--name", default=os.environ.get("LAB", "lab"), help="the lab's name (default: $LAB, else lab)")
    parser.add_argument(
        "--set", dest="settings", action="append", default=[], metavar="KEY=VALUE", help="a chart value"
    )
    options = parser.parse_args(arguments)
    progress = Progress()
    try:
        Release(cluster(options.name, progress), progress).install(options.settings)
    except LabError as error:
        print(f"install: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("install: interrupted; the same command can be run again", file=sys.stderr)
        return 130
    progress.say("The operator is ready. Try: kubectl get pdinf --all-namespaces")
    return 0


if __name__ == "__main__":
    sys.exit(main())
