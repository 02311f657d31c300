"""The lab's Prometheus: what it scrapes, and how pods reach it. Pure."""

from __future__ import annotations

from typing import Any

from e2e.lab.api import Object
from e2e.lab.spec import CONTROL_PLANE_IP, LabSpec

NAMESPACE = "monitoring"
SERVICE = "prometheus"
SERVICE_PORT = 9090
URL = f"http://{SERVICE}.{NAMESPACE}.svc:{SERVICE_PORT}"
"""Where pods, and commands run inside the lab, find it."""

SCRAPE_INTERVAL = "2s"
_META = "__meta_kubernetes_pod"


def configuration(spec: LabSpec) -> dict[str, Any]:
    """Scrapes running pods that carry the usual `prometheus.io/…` annotations, on real nodes only."""
    return {
        "global": {"scrape_interval": SCRAPE_INTERVAL, "evaluation_interval": SCRAPE_INTERVAL},
        "scrape_configs": [
            {
                "job_name": "pods",
                "kubernetes_sd_configs": [
                    {"role": "pod", "kubeconfig_file": str(spec.component_kubeconfig("prometheus"))}
                ],
                "relabel_configs": relabelling(),
            }
        ],
    }


def relabelling() -> list[dict[str, Any]]:
    annotation = f"{_META}_annotation_prometheus_io"
    return [
        {"source_labels": [f"{annotation}_scrape"], "action": "keep", "regex": "true"},
        {"source_labels": [f"{_META}_phase"], "action": "keep", "regex": "Running"},
        # nothing listens in the pods of fake nodes
        {"source_labels": [f"{_META}_node_name"], "action": "drop", "regex": r"gpu-\d+"},
        # each container port is a target of its own, and init containers are, too: one address per pod is enough
        {"source_labels": [f"{_META}_container_init"], "action": "drop", "regex": "true"},
        {
            "source_labels": [f"{_META}_ip", f"{annotation}_port"],
            "regex": r"(.+);(\d+)",
            "target_label": "__address__",
            "replacement": "$1:$2",
        },
        {"source_labels": [f"{annotation}_path"], "regex": "(.+)", "target_label": "__metrics_path__"},
        {"regex": f"{_META}_label_(.+)", "action": "labelmap"},
        {"source_labels": ["__meta_kubernetes_namespace"], "target_label": "namespace"},
        {"source_labels": [f"{_META}_name"], "target_label": "pod"},
        {"source_labels": [f"{_META}_node_name"], "target_label": "node"},
    ]


def service(spec: LabSpec) -> list[tuple[str, Object]]:
    """API paths and objects that give Prometheus, a process outside any pod, an address in the cluster."""
    namespace: Object = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}}
    front: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": SERVICE, "namespace": NAMESPACE},
        "spec": {"ports": [{"name": "http", "port": SERVICE_PORT, "targetPort": spec.ports.prometheus}]},
    }
    endpoints: Object = {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {
            "name": f"{SERVICE}-lab",
            "namespace": NAMESPACE,
            "labels": {"kubernetes.io/service-name": SERVICE, "endpointslice.kubernetes.io/managed-by": "pd-lab"},
        },
        "addressType": "IPv4",
        "endpoints": [{"addresses": [CONTROL_PLANE_IP], "conditions": {"ready": True}}],
        "ports": [{"name": "http", "port": spec.ports.prometheus, "protocol": "TCP"}],
    }
    return [
        (f"/api/v1/namespaces/{NAMESPACE}", namespace),
        (f"/api/v1/namespaces/{NAMESPACE}/services/{SERVICE}", front),
        (f"/apis/discovery.k8s.io/v1/namespaces/{NAMESPACE}/endpointslices/{SERVICE}-lab", endpoints),
    ]
