"""The demo: `python -m e2e.demo up|down`.

A real cluster on this machine, the operator from this checkout, one service with real SGLang on the CPU, one
streamed answer, and a load that makes the operator change the ratio. Safe to interrupt and to run again.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import Final

from e2e.kubectl import DeadlineError, Kubectl, KubectlError, Object, wait_until
from e2e.lab import images
from e2e.lab.errors import LabError
from e2e.lab.lab import Lab, Size
from e2e.lab.progress import Progress
from e2e.lab.spec import Profile
from e2e.stack import Stack, bring_up

NAMESPACE: Final = "demo"
SERVICE: Final = "demo"
QUESTION: Final = "What is the capital city of France?"

#: Three engines on two cores need about a minute to load; this leaves room for a busy machine.
READY_WITHIN: Final = 600.0
GROWS_WITHIN: Final = 240.0
LOAD: Final = ("--concurrency", "12", "--max-tokens", "200")


def up(name: str, progress: Progress) -> None:
    """Bring everything up and show it."""
    stack = bring_up(name, Size(Profile.FULL, nodes=1, gpu_nodes=3), progress)
    kubectl = stack.namespace(NAMESPACE)
    with progress.step(f"Apply the service {SERVICE} (1 prefill and 1 decode worker, real SGLang on the CPU)"):
        kubectl.apply(stack.service(SERVICE))
    with progress.step("Wait until it is Ready: the engines load"):
        kubectl.wait_ready(SERVICE, within=READY_WITHIN)
    _table(kubectl)
    _ask(stack)
    _load(stack, kubectl, progress)
    _next_steps(name, stack.lab)


def down(name: str, progress: Progress) -> None:
    """Remove the lab and every image that was built into local storage."""
    Lab.named(name, progress).down(wipe=True)
    images.prune_all()
    progress.say("Nothing of the demo runs or is mounted any more. What was built stays cached for the next time.")


def _table(kubectl: Kubectl) -> None:
    print(f"\n$ kubectl get pdinf --namespace {NAMESPACE}\n{kubectl.run('get', 'pdinf')}", flush=True)


def _ask(stack: Stack) -> None:
    print(f"$ curl http://{SERVICE}.{NAMESPACE}.svc:8000/v1/chat/completions … “{QUESTION}”", flush=True)
    subprocess.run(stack.python("e2e.client", *_target(), "--max-tokens", "48", QUESTION), check=True)
    print(
        "(The model is tiny and random, so the words mean nothing. The path is real: router → prefill → KV → decode.)"
    )


def _target() -> tuple[str, ...]:
    return "--url", f"http://{SERVICE}.{NAMESPACE}.svc:8000", "--model", "tiny-llama"


def _load(stack: Stack, kubectl: Kubectl, progress: Progress) -> None:
    """Press on the service until the operator has added a worker; the load ends with this function."""
    before = _desired(kubectl)
    load = subprocess.Popen(
        stack.python("e2e.load", *_target(), *LOAD, "--seconds", str(GROWS_WITHIN), "--until-eof"),
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
    )
    try:
        with progress.step(
            f"Put {LOAD[1]} parallel streams on it, until the operator changes {before[0]}P:{before[1]}D"
        ):
            wait_until("the operator adds a worker", lambda: _desired(kubectl) != before, within=GROWS_WITHIN)
    finally:
        load.communicate(timeout=60)
    _table(kubectl)
    newest = kubectl.get("pdinf", SERVICE)["status"]["scaling"]["history"][0]
    print(f"Why (status.scaling.history): {newest['reason']}\n")


def _desired(kubectl: Kubectl) -> tuple[int, int]:
    status: Object = kubectl.get("pdinf", SERVICE).get("status", {})
    return tuple(status.get(role, {}).get("desiredReplicas", 0) for role in ("prefill", "decode"))


def _next_steps(name: str, lab: Lab) -> None:
    print(
        f"""What to try next (or: export KUBECONFIG={lab.kubeconfig}):
  make lab-exec LAB={name} CMD='kubectl -n {NAMESPACE} get pdinf -o wide -w'
      watch it shrink again
  make lab-exec LAB={name} CMD='kubectl -n {NAMESPACE} describe pdinf {SERVICE}'
      conditions, decisions
  make lab-exec LAB={name} CMD='kubectl -n pd-system logs deploy/pd-operator'
      what the operator does
  make lab-exec LAB={name} CMD='kubectl explain pdinf.spec.scaling'
      every field
  make lab-status LAB={name}
      what runs here
  make demo-down LAB={name}
      remove it all"""
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Problems that the person can solve are one message on standard error, and exit status 1."""
    parser = argparse.ArgumentParser(prog="python -m e2e.demo", description="One service for real, on this machine.")
    parser.add_argument("command", choices=("up", "down"))
    parser.add_argument("--name", default=os.environ.get("LAB", "lab"), help="the lab's name (default: $LAB, else lab)")
    options = parser.parse_args(arguments)
    progress = Progress()
    try:
        (up if options.command == "up" else down)(options.name, progress)
    except (LabError, KubectlError, DeadlineError, subprocess.CalledProcessError) as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("demo: interrupted; run it again to go on, or make demo-down to remove it", file=sys.stderr)
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
