"""The StatefulSet of one role of one generation, and the worker pod in it."""

from __future__ import annotations

from typing import Any, Final

from pd_operator.api import labels
from pd_operator.api.v1alpha1 import PDInferenceService, SourceType
from pd_operator.plan.generations import Generation, set_name
from pd_operator.plan.objects import engine_command, ports
from pd_operator.plan.objects.environment import SCRATCH_MOUNT, worker_environment
from pd_operator.plan.objects.metadata import child, child_labels, with_fingerprint
from pd_operator.plan.objects.pod import container_security, merged, pod_spec, resources, scrape_annotations
from pd_operator.plan.objects.probes import worker_probes
from pd_operator.plan.objects.service import headless_name

#: Node label with the product name of the accelerator (GPU feature discovery).
_PRODUCT_LABEL: Final = "nvidia.com/gpu.product"

#: Time between leaving the pod's endpoints and SIGTERM: the router lets go of a deleted pod within it.
_PRE_STOP_SECONDS: Final = 5
#: What the engine needs to end after its last request (it looks every 5 s, then stops its processes).
_EXIT_SECONDS: Final = 30


def worker_set(service: PDInferenceService, role: str, generation: Generation, pods: int) -> dict[str, Any]:
    """The StatefulSet with `pods` pods. Everything but `spec.replicas` stays as it is for the set's whole life."""
    nodes = service.role(role).parallelism.nodes
    identity = {labels.GENERATION: generation.hash, labels.COMPAT: generation.compat}
    template = _template(service, role, generation)
    body = child(
        service,
        "apps/v1",
        "StatefulSet",
        set_name(service.metadata.name, role, generation.hash),
        role,
        more_labels=identity,
        annotations={labels.NODES: str(nodes)},
        spec={
            "replicas": pods,
            "serviceName": headless_name(service.metadata.name, role),
            # Workers do not wait for each other, and ranks of one replica must start together.
            "podManagementPolicy": "Parallel",
            # A generation's pods are never replaced in place, whatever happens to the template.
            "updateStrategy": {"type": "OnDelete"},
            "revisionHistoryLimit": 1,
            "selector": {
                "matchLabels": {
                    labels.SERVICE: service.metadata.name,
                    labels.ROLE: role,
                    labels.GENERATION: generation.hash,
                }
            },
            "template": template,
        },
    )
    return with_fingerprint(body, of=template)


def _template(service: PDInferenceService, role: str, generation: Generation) -> dict[str, Any]:
    overlay = service.role(role).pod
    return {
        "metadata": {
            "labels": {
                **overlay.labels,
                **child_labels(service, role),
                labels.GENERATION: generation.hash,
                labels.COMPAT: generation.compat,
                **_traffic(service.role(role).parallelism.nodes),
            },
            "annotations": {
                **scrape_annotations(ports.ENGINE_HTTP),
                labels.BOOTSTRAP_PORT: str(service.spec.transfer.bootstrap_port),
                **overlay.annotations,
            },
        },
        "spec": _pod(service, role, generation),
    }


def _traffic(nodes: int) -> dict[str, str]:
    """A pod that is a whole replica serves as soon as it is ready; ranks of a larger one are told apart later."""
    return {labels.TRAFFIC: labels.SERVING, labels.RANK: "0"} if nodes == 1 else {labels.TRAFFIC: labels.HELD}


def _pod(service: PDInferenceService, role: str, generation: Generation) -> dict[str, Any]:
    settings = service.role(role)
    overlay = settings.pod
    accelerator = settings.accelerator
    account = overlay.service_account_name
    return pod_spec(
        overlay,
        _container(service, role, generation),
        volumes=_volumes(service, role),
        security={"seccompProfile": {"type": "RuntimeDefault"}},
        grace_seconds=settings.drain_timeout_seconds + _EXIT_SECONDS,
        node_selector={_PRODUCT_LABEL: accelerator.type} if accelerator.type else None,
        serviceAccountName=account,
        # Workers talk to no API server; whoever names an account may want its token.
        automountServiceAccountToken=None if account else False,
        # The engine must not be process 1: until its handler is installed, process 1 ignores SIGTERM.
        shareProcessNamespace=True,
    )


def _container(service: PDInferenceService, role: str, generation: Generation) -> dict[str, Any]:
    spec, settings = service.spec, service.role(role)
    rdma = engine_command.uses_rdma(spec.transfer)
    has_rdma_devices = rdma and (spec.transfer.rdma.resource_name is not None or settings.pod.host_network)
    devices = {settings.accelerator.resource_name: settings.accelerators_per_pod}
    if rdma and spec.transfer.rdma.resource_name is not None:
        devices[spec.transfer.rdma.resource_name] = spec.transfer.rdma.count
    named_ports = [{"name": "http", "containerPort": ports.ENGINE_HTTP, "protocol": "TCP"}]
    if role == labels.PREFILL:
        named_ports.append({"name": "bootstrap", "containerPort": spec.transfer.bootstrap_port, "protocol": "TCP"})
    return {
        "name": "engine",
        "image": spec.engine.image,
        "imagePullPolicy": spec.engine.image_pull_policy.value,
        "command": engine_command.command(service, role),
        "args": engine_command.arguments(service, role),
        "env": worker_environment(service, role, generation.hash),
        "ports": named_ports,
        "resources": resources(settings.resources, devices),
        "securityContext": container_security(
            settings.pod,
            # Memory that is registered with an RDMA device has to be locked.
            capabilities=("IPC_LOCK",) if has_rdma_devices else (),
        ),
        "volumeMounts": merged(_mounts(service), settings.pod.volume_mounts, "mountPath"),
        **worker_probes(service, role),
        "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
    }


def _volumes(service: PDInferenceService, role: str) -> list[dict[str, Any]]:
    volumes: list[dict[str, Any]] = [
        {"name": "scratch", "emptyDir": {}},
        {"name": "tmp", "emptyDir": {}},
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": service.role(role).shared_memory}},
    ]
    source = service.spec.model.source
    if source.type == SourceType.PERSISTENT_VOLUME_CLAIM and source.persistent_volume_claim:
        claim = source.persistent_volume_claim
        volumes.append(
            {
                "name": "model",
                "persistentVolumeClaim": {"claimName": claim.claim_name, "readOnly": claim.read_only},
            }
        )
    if source.type == SourceType.HOST_PATH and source.host_path:
        volumes.append({"name": "model", "hostPath": {"path": source.host_path.path, "type": "Directory"}})
    return volumes


def _mounts(service: PDInferenceService) -> list[dict[str, Any]]:
    mounts: list[dict[str, Any]] = [
        {"name": "scratch", "mountPath": SCRATCH_MOUNT},
        {"name": "tmp", "mountPath": "/tmp"},  # noqa: S108 - the container's own
        {"name": "shm", "mountPath": "/dev/shm"},  # noqa: S108 - the container's own
    ]
    source = service.spec.model.source
    if source.type == SourceType.PERSISTENT_VOLUME_CLAIM and source.persistent_volume_claim:
        claim = source.persistent_volume_claim
        sub_path = {"subPath": claim.sub_path} if claim.sub_path else {}
        mounts.append(
            {"name": "model", "mountPath": engine_command.MODEL_MOUNT, "readOnly": claim.read_only, **sub_path}
        )
    if source.type == SourceType.HOST_PATH and source.host_path:
        mounts.append({"name": "model", "mountPath": engine_command.MODEL_MOUNT, "readOnly": True})
    return mounts
