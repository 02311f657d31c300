"""The command line: `python -m e2e.lab up|down|status|exec|load|kubeconfig|start|stop`."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

from e2e.lab import binaries, external, images, status
from e2e.lab.errors import LabError
from e2e.lab.external import ExternalCluster
from e2e.lab.lab import BUILD, Lab, Size
from e2e.lab.progress import Progress
from e2e.lab.spec import Profile

SIGNALS = {"TERM": signal.SIGTERM, "KILL": signal.SIGKILL, "STOP": signal.SIGSTOP}


def parser() -> argparse.ArgumentParser:
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--name", default=os.environ.get("LAB", "lab"), help="the lab's name (default: $LAB, else lab)")
    root = argparse.ArgumentParser(prog="python -m e2e.lab", description="Real Kubernetes on this machine, for tests.")
    commands = root.add_subparsers(dest="command", required=True)

    up = commands.add_parser("up", parents=[common], help="bring a lab up, or complete one that is up")
    up.add_argument("--profile", type=Profile, choices=list(Profile), default=Profile.FULL)
    up.add_argument("--nodes", type=int, default=1, help="real nodes (full profile only; default: 1)")
    up.add_argument("--gpu-nodes", type=int, default=25, help="fake GPU nodes (default: 25)")
    up.add_argument(
        "--kubeconfig",
        type=Path,
        help=f"use this existing cluster instead (or ${external.KUBECONFIG_VARIABLE}); its context must be "
        f"{', '.join(external.ALLOWED_CONTEXTS)} or named in ${external.ALLOWED_VARIABLE}",
    )

    show = commands.add_parser("status", parents=[common], help="components, memory, ports and nodes")
    show.add_argument("--json", action="store_true")

    run = commands.add_parser("exec", parents=[common], help="run a command on the lab: exec [--node N] -- CMD…")
    run.add_argument("--node", type=int, default=0)
    run.add_argument("argv", nargs="+", metavar="CMD")

    down = commands.add_parser("down", parents=[common], help="end everything the lab runs")
    down.add_argument("--wipe", action="store_true", help="also remove its data and keys")

    load = commands.add_parser("load", parents=[common], help="build images and import them into real nodes")
    load.add_argument("images", nargs="+", metavar="IMAGE", help="one of the project's, or a docker-archive file")
    load.add_argument("--nodes", help="comma-separated node numbers (default: all)")

    commands.add_parser("kubeconfig", parents=[common], help="print the path of the administrator's kubeconfig")

    start = commands.add_parser("start", parents=[common], help="start a component that is down")
    start.add_argument("component")
    stop = commands.add_parser("stop", parents=[common], help="stop a component; it stays down until start or up")
    stop.add_argument("component")
    stop.add_argument("--signal", choices=sorted(SIGNALS), default="TERM")

    build = commands.add_parser("build", help="make container images and print their references and archives")
    build.add_argument("images", nargs="*", metavar="IMAGE", help=f"default: all of {', '.join(images.IMAGES)}")
    commands.add_parser("prefetch", help="build every program that any command needs")
    return root


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command. Problems that the person can solve are one line on standard error, and exit status 1."""
    options = parser().parse_args(arguments)
    try:
        return _run(options)
    except LabError as error:
        print(f"lab: {error}", file=sys.stderr)
        return 1
    except PermissionError as error:
        print(f"lab: {error}; run this as the user who made the lab", file=sys.stderr)
        return 1
    except BrokenPipeError:
        # whoever read the output has seen enough; Python would complain again when it flushes at its end
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        print("lab: interrupted; the same command can be run again", file=sys.stderr)
        return 130


def _run(options: argparse.Namespace) -> int:
    progress = Progress()
    if options.command == "build":
        return images.main_build(options.images)
    if options.command == "prefetch":
        binaries.prefetch(progress)
        return 0
    lab = Lab.named(options.name, progress)
    if options.command == "up":
        return _up(options, lab, progress)
    cluster = external.load(BUILD / options.name) or lab
    if options.command == "kubeconfig":
        print(cluster.kubeconfig)
    elif options.command == "exec":
        command, environment = cluster.command(options.argv, options.node), cluster.environment()
        sys.stdout.flush()
        try:
            os.execvpe(command[0], command, environment)
        except FileNotFoundError:
            raise LabError(f"{command[0]} was not found on the path {environment['PATH']}") from None
    elif isinstance(cluster, ExternalCluster):
        _external(options, cluster)
    else:
        _lab(options, cluster, progress)
    return 0


def _up(options: argparse.Namespace, lab: Lab, progress: Progress) -> int:
    if source := external.chosen(options.kubeconfig):
        cluster = external.adopt(lab.directory, source)
        progress.say(f"using the external cluster {cluster.context}; kubeconfig: {cluster.kubeconfig}")
        return 0
    if external.load(lab.directory) is not None:
        raise LabError(f"{lab.name!r} stands for an external cluster; `down` it first, or use another name")
    if "KUBECONFIG" in os.environ:
        progress.say(f"KUBECONFIG is not used; to use that cluster, set {external.KUBECONFIG_VARIABLE}")
    # NODES has a default in the Makefile, so it comes along for a profile without real nodes, too
    nodes = options.nodes if options.profile is Profile.FULL else 0
    lab.up(Size(options.profile, nodes, options.gpu_nodes))
    print(status.as_text(status.observe(lab)))
    return 0


def _external(options: argparse.Namespace, cluster: ExternalCluster) -> None:
    if options.command == "down":
        external.forget(cluster)
        print(f"{cluster.context} is no longer used; nothing in it was changed")
    elif options.command == "status":
        print(f"external cluster {cluster.context}\nexport KUBECONFIG={cluster.kubeconfig}")
    else:
        raise LabError(
            f"{options.command} needs a lab; {cluster.context} is an external cluster, for which its own tool does that"
        )


def _lab(options: argparse.Namespace, lab: Lab, progress: Progress) -> None:
    if options.command == "status":
        seen = status.observe(lab)
        print(status.as_json(seen) if options.json else status.as_text(seen))
    elif options.command == "down":
        ended = lab.down(wipe=options.wipe)
        progress.say(f"lab {lab.name} is down ({ended} processes ended)" if ended else f"lab {lab.name} was not up")
    elif options.command == "load":
        nodes = [int(node) for node in options.nodes.split(",")] if options.nodes else None
        for image in options.images:
            archive = Path(image) if image.endswith(".tar") else images.ensure(image, progress).path
            with progress.step(f"importing {archive.name}"):
                lab.load(archive, nodes)
    elif options.command == "start":
        done = lab.start(options.component)
        progress.say(f"{options.component} {'started' if done else 'ran already'}")
    elif options.command == "stop":
        done = lab.stop(options.component, SIGNALS[options.signal])
        progress.say(f"{options.component} {'stopped' if done else 'was not running'}")
