"""From a pod object to facts: is it ready, may it hold requests, and if it does not run, why."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any, Final

from pd_operator.api import conditions, labels, quantities
from pd_operator.plan.observed import PodFacts, Problem

#: Reasons of a waiting container, as the kubelet names them.
_WAITING: Final = {
    "ErrImagePull": conditions.IMAGE_PULL_FAILED,
    "ImagePullBackOff": conditions.IMAGE_PULL_FAILED,
    "InvalidImageName": conditions.IMAGE_PULL_FAILED,
    "ErrImageNeverPull": conditions.IMAGE_PULL_FAILED,
    "RegistryUnavailable": conditions.IMAGE_PULL_FAILED,
    "ImageInspectError": conditions.IMAGE_PULL_FAILED,
    "SignatureValidationFailed": conditions.IMAGE_PULL_FAILED,
    "CreateContainerConfigError": conditions.CONTAINER_CONFIG_FAILED,
    "CreateContainerError": conditions.CONTAINER_CONFIG_FAILED,
    "RunContainerError": conditions.CONTAINER_CONFIG_FAILED,
    "CrashLoopBackOff": conditions.CRASH_LOOP,
}
#: A pod's message may be a whole stack trace; a condition's message holds 1,024 characters for everything.
_LONGEST_MESSAGE: Final = 400


def pod_facts(pod: Mapping[str, Any], accelerators: frozenset[str]) -> PodFacts:
    """Facts of one pod (as the store keeps it).

    Args:
        pod: The pod.
        accelerators: Resource names that count as accelerators.
    """
    metadata, spec, status = pod["metadata"], pod["spec"], pod["status"]
    tags = metadata.get("labels") or {}
    state = {condition["type"]: condition for condition in status.get("conditions") or ()}
    terminating = bool(metadata.get("deletionTimestamp"))
    is_ready = state.get("Ready", {}).get("status") == "True"
    return PodFacts(
        name=metadata["name"],
        role=tags.get(labels.ROLE, ""),
        generation=tags.get(labels.GENERATION, ""),
        compat=tags.get(labels.COMPAT, ""),
        ordinal=_ordinal(metadata["name"], tags),
        traffic=tags.get(labels.TRAFFIC),
        rank=tags.get(labels.RANK),
        ip=status.get("podIP"),
        node=spec.get("nodeName"),
        ready=is_ready and not terminating,
        was_ready=is_ready or _was_ready(state.get("Ready", {}), status),
        terminating=terminating,
        scheduled=bool(spec.get("nodeName")),
        accelerators=_accelerators(spec, accelerators),
        drain_started=_seconds((metadata.get("annotations") or {}).get(labels.DRAIN_STARTED)),
        problem=None if terminating or is_ready else problem_of(metadata["name"], spec, status),
    )


def problem_of(name: str, spec: Mapping[str, Any], status: Mapping[str, Any]) -> Problem | None:
    """Why a pod does not run, in the words of the scheduler, the kubelet or the container itself."""
    subject = f"pod {name}"
    for container in _containers(status):
        problem = _container_problem(subject, container)
        if problem is not None:
            return problem
    if spec.get("nodeName"):
        return _failed_pod(subject, status)
    for condition in status.get("conditions") or ():
        if condition["type"] == "PodScheduled" and condition["status"] == "False":
            if condition.get("reason") == "SchedulingGated":
                return None
            return Problem(conditions.UNSCHEDULABLE, subject, _sentence(condition.get("message") or "finds no node"))
    return None


def _container_problem(subject: str, container: Mapping[str, Any]) -> Problem | None:
    waiting = (container.get("state") or {}).get("waiting") or {}
    reason = _WAITING.get(waiting.get("reason", ""))
    if reason is None:
        return None
    if reason == conditions.CRASH_LOOP:
        return Problem(reason, subject, _crash(container))
    message = _sentence(waiting.get("message") or waiting["reason"])
    if reason == conditions.IMAGE_PULL_FAILED and container.get("image") and container["image"] not in message:
        message = f"image {container['image']}: {message}"
    return Problem(reason, subject, message)


def _crash(container: Mapping[str, Any]) -> str:
    """How the container ended last time. The number of restarts is left out: a message must not change by itself."""
    ended = (container.get("lastState") or {}).get("terminated") or {}
    reason, code = ended.get("reason") or "Error", ended.get("exitCode")
    how = f"{reason}, exit code {code}" if code is not None else reason
    if ended.get("signal"):
        how += f", signal {ended['signal']}"
    text = f"container {container.get('name')} keeps ending ({how})"
    return f"{text}: {_sentence(ended['message'])}" if ended.get("message") else text


def _failed_pod(subject: str, status: Mapping[str, Any]) -> Problem | None:
    """A pod that ended as a whole: evicted, or refused by its node."""
    if status.get("phase") != "Failed":
        return None
    words = ": ".join(part for part in (status.get("reason"), status.get("message")) if part)
    return Problem(conditions.CRASH_LOOP, subject, _sentence(words or "all its containers have ended"))


def _containers(status: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from status.get("initContainerStatuses") or ()
    yield from status.get("containerStatuses") or ()


def _was_ready(ready: Mapping[str, Any], status: Mapping[str, Any]) -> bool:
    """Whether an unready pod was ready since its containers started.

    Before a pod is ready for the first time, its Ready condition dates from before the start of the containers; a
    later date means that it was ready and lost it (a failed probe, or the beginning of its termination).
    """
    since = _seconds(ready.get("lastTransitionTime"))
    starts = [
        start
        for container in status.get("containerStatuses") or ()
        if (start := _seconds(((container.get("state") or {}).get("running") or {}).get("startedAt"))) is not None
    ]
    return since is not None and bool(starts) and since > max(starts)


def _accelerators(spec: Mapping[str, Any], names: frozenset[str]) -> int:
    """Extended resources have equal requests and limits, so that limits tell both."""
    return sum(
        int(quantities.parse(amount))
        for container in spec.get("containers") or ()
        for name, amount in container["resources"]["limits"].items()
        if name in names
    )


def _ordinal(name: str, tags: Mapping[str, str]) -> int:
    text = tags.get(labels.POD_INDEX) or name.rsplit("-", 1)[-1]
    return int(text) if text.isdigit() else 0


def _seconds(text: str | None) -> float | None:
    if not text:
        return None
    try:
        return datetime.fromisoformat(text).timestamp()
    except ValueError:
        return None


def _sentence(text: str) -> str:
    """One line of bounded length."""
    line = " ".join(text.split())
    return line if len(line) <= _LONGEST_MESSAGE else f"{line[: _LONGEST_MESSAGE - 1]}…"
