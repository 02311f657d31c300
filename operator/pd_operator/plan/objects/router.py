"""The router Deployment of one compat: SMG in prefill/decode mode with Kubernetes discovery."""

from __future__ import annotations

from typing import Any, Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService, ResourceRequirements, RouterPolicy
from pd_operator.plan.generations import router_name
from pd_operator.plan.objects import ports
from pd_operator.plan.objects.environment import container_environment
from pd_operator.plan.objects.metadata import child, child_labels, with_fingerprint
from pd_operator.plan.objects.pod import container_security, merged, pod_spec, resources, scrape_annotations
from pd_operator.plan.objects.probes import http_probe
from pd_operator.plan.objects.rbac import account_name

#: User id of the router image.
_USER: Final = 65532

_POLICIES: Final = {
    RouterPolicy.CACHE_AWARE: "cache_aware",
    RouterPolicy.POWER_OF_TWO: "power_of_two",
    RouterPolicy.ROUND_ROBIN: "round_robin",
    RouterPolicy.RANDOM: "random",
    RouterPolicy.LEAST_LOAD: "least_load",
    RouterPolicy.CONSISTENT_HASHING: "consistent_hashing",
}

_DEFAULT_REQUESTS: Final = {"cpu": "500m", "memory": "512Mi"}

#: Time between leaving the Service's endpoints and SIGTERM, so that no new connection meets a closed port.
_PRE_STOP_SECONDS: Final = 10
#: What the router needs to end after its last stream.
_EXIT_SECONDS: Final = 15


def router(service: PDInferenceService, compat: str, replicas: int) -> dict[str, Any]:
    """The router Deployment that pairs the workers of one compat."""
    overlay = service.spec.router.pod
    identity = {
        labels.SERVICE: service.metadata.name,
        labels.ROLE: labels.ROUTER,
        labels.COMPAT: compat,
    }
    return with_fingerprint(
        child(
            service,
            "apps/v1",
            "Deployment",
            router_name(service.metadata.name, compat),
            labels.ROUTER,
            more_labels={labels.COMPAT: compat},
            spec={
                "replicas": replicas,
                "revisionHistoryLimit": 1,
                # A router is replaced only by one that is ready, which means that it found workers of both roles.
                "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}},
                "selector": {"matchLabels": identity},
                "template": {
                    "metadata": {
                        "labels": {
                            **overlay.labels,
                            **child_labels(service, labels.ROUTER),
                            labels.COMPAT: compat,
                        },
                        "annotations": {**scrape_annotations(ports.ROUTER_METRICS), **overlay.annotations},
                    },
                    "spec": _pod(service, compat),
                },
            },
        )
    )


def stream_seconds(service: PDInferenceService) -> int:
    """How long a router that goes may finish its streams: as long as the workers that feed them."""
    return max(service.spec.prefill.drain_timeout_seconds, service.spec.decode.drain_timeout_seconds)


def arguments(service: PDInferenceService, compat: str) -> list[str]:
    """SMG's arguments: the operator's, then the user's."""
    wanted = service.spec.router
    return [
        *("--host", "0.0.0.0", "--port", str(ports.ROUTER_HTTP)),
        *("--prometheus-host", "0.0.0.0", "--prometheus-port", str(ports.ROUTER_METRICS)),
        "--pd-disaggregation",
        *("--policy", _POLICIES[wanted.policy]),
        *("--service-discovery", "--service-discovery-namespace", service.metadata.namespace),
        *("--service-discovery-port", str(ports.ENGINE_HTTP)),
        *("--prefill-selector", *_selector(service, labels.PREFILL, compat)),
        *("--decode-selector", *_selector(service, labels.DECODE, compat)),
        # Requests are passed on as text: the router needs no tokenizer, and no way to the model hub.
        "--disable-tokenizer-autoload",
        # Its own interval of 60 s keeps a dead worker in use for minutes. A worker's /health takes over a second.
        *("--health-check-interval-secs", "5", "--health-check-timeout-secs", "5"),
        *("--health-failure-threshold", "3", "--health-success-threshold", "1"),
        *("--worker-startup-check-interval", "2"),
        *("--cb-timeout-duration-secs", "10"),
        *("--shutdown-grace-period-secs", str(stream_seconds(service))),
        *wanted.args,
    ]


def _selector(service: PDInferenceService, role: str, compat: str) -> list[str]:
    """The workers of a role that may serve: leaders whose traffic switch is on."""
    wanted = {
        labels.SERVICE: service.metadata.name,
        labels.ROLE: role,
        labels.COMPAT: compat,
        labels.TRAFFIC: labels.SERVING,
        labels.RANK: "0",
    }
    return [f"{key}={value}" for key, value in wanted.items()]


def _pod(service: PDInferenceService, compat: str) -> dict[str, Any]:
    overlay = service.spec.router.pod
    container = _container(service, compat)
    return pod_spec(
        overlay,
        container,
        volumes=[{"name": "tmp", "emptyDir": {}}],
        security={
            "runAsNonRoot": True,
            "runAsUser": _USER,
            "runAsGroup": _USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        grace_seconds=_PRE_STOP_SECONDS + stream_seconds(service) + _EXIT_SECONDS,
        serviceAccountName=account_name(service),
    )


def _container(service: PDInferenceService, compat: str) -> dict[str, Any]:
    wanted = service.spec.router
    given = wanted.resources
    sized = ResourceRequirements(requests={**_DEFAULT_REQUESTS, **given.requests}, limits=given.limits)
    container = {
        "name": "router",
        "image": wanted.image,
        "imagePullPolicy": wanted.image_pull_policy.value,
        "command": ["python3", "-m", "smg.launch_router"],
        "args": arguments(service, compat),
        "env": container_environment(wanted.env),
        "ports": [
            {"name": "http", "containerPort": ports.ROUTER_HTTP, "protocol": "TCP"},
            {"name": "metrics", "containerPort": ports.ROUTER_METRICS, "protocol": "TCP"},
        ],
        "resources": resources(sized, {}),
        "securityContext": container_security(wanted.pod, readOnlyRootFilesystem=True),
        "volumeMounts": merged(
            [{"name": "tmp", "mountPath": "/tmp"}],  # noqa: S108 - the container's own
            wanted.pod.volume_mounts,
            "mountPath",
        ),
        # 200 only with at least one healthy worker of each role.
        "readinessProbe": http_probe("/readiness", period=2, timeout=2, failures=3),
        "livenessProbe": http_probe("/liveness", period=10, timeout=5, failures=6),
        "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
    }
    return {key: value for key, value in container.items() if value != []}
