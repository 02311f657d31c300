"""Objects that must be accepted: every mode, and the edges of every bound."""

from __future__ import annotations

from typing import Final

from tests.cases.case import Good, good

_MULTI_NODE: Final = {"tensor": 16, "nodes": 2}
_SLO: Final = {"ttftMilliseconds": 2000, "itlMilliseconds": 50}

GOOD: Final[tuple[Good, ...]] = (
    good("a model name is enough"),
    good("the longest name", name="a" * 35),
    good("a name of one letter", name="a"),
    good("counts by hand", {"prefill.replicas": 2, "decode.replicas": 6}),
    good("no replicas at all", {"prefill.replicas": 0, "decode.replicas": 0}),
    good("the most replicas", {"prefill.replicas": 1000, "decode.replicas": 1000}),
    good("suspended", {"suspend": True}),
    good(
        "fixed ratio",
        {"scaling": {"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 3}, "units": 4}},
    ),
    good(
        "fixed ratio at zero",
        {"scaling": {"mode": "FixedRatio", "fixedRatio": {"prefill": 1, "decode": 1}, "units": 0}},
    ),
    good("a fixed ratio kept for later", {"scaling": {"mode": "Manual", "fixedRatio": {"prefill": 1, "decode": 3}}}),
    good("SLO within a budget", {"slo": _SLO, "scaling": {"mode": "SLO", "budget": {"accelerators": 16}}}),
    good("SLO with a budget that just fits", {"slo": _SLO, "scaling": {"mode": "SLO", "budget": {"accelerators": 2}}}),
    good(
        "SLO within bounds of the roles",
        {"slo": _SLO, "scaling.mode": "SLO", "prefill.maxReplicas": 4, "decode.maxReplicas": 12},
    ),
    good(
        "SLO that only recommends",
        {
            "slo": {**_SLO, "percentile": 99, "attainmentPercent": 100},
            "scaling": {
                "mode": "SLO",
                "apply": "Recommend",
                "budget": {"accelerators": 64},
                "ratio": {"min": "1:8", "max": "2:1"},
                "behavior": {"targetUtilizationPercent": 80, "scaleUpCooldownSeconds": 0, "maxStepReplicas": 2},
                "metrics": {"maxAgeSeconds": 30, "onMissing": "Floor"},
                "profile": {"prefillTokensPerSecond": 20000, "decodeConcurrentRequests": 64},
            },
        },
    ),
    good(
        "SLO with several accelerators in a replica",
        {
            "slo": _SLO,
            "scaling": {"mode": "SLO", "budget": {"accelerators": 24}},
            "prefill": {"parallelism": {"tensor": 8}},
            "decode": {"parallelism": _MULTI_NODE},
        },
    ),
    good("an SLO kept for later", {"slo": _SLO}),
    good("ratio bounds that are equal", {"scaling.ratio": {"min": "2:6", "max": "1:3"}}),
    good("no router", {"router.type": "None"}),
    good(
        "a router of one's own taste",
        {
            "router": {
                "image": "registry.example.com/smg:1.13.0",
                "imagePullPolicy": "Always",
                "replicas": 3,
                "policy": "PowerOfTwo",
                "args": ["--request-timeout-secs", "600"],
                "resources": {"requests": {"cpu": "2", "memory": "1Gi"}},
                "service": {
                    "type": "LoadBalancer",
                    "port": 80,
                    "annotations": {"service.example.com/internal": "true"},
                },
            }
        },
    ),
    good(
        "RDMA by device plugin", {"transfer.rdma": {"requirement": "Required", "resourceName": "rdma/hca", "count": 8}}
    ),
    good(
        "RDMA on the node's network",
        {
            "transfer": {
                "backend": "NIXL",
                "rdma": {"requirement": "Required", "devices": "mlx5_0,mlx5_1", "gidIndex": 3},
            },
            "prefill.pod.hostNetwork": True,
            "decode.pod.hostNetwork": True,
        },
    ),
    good("TCP", {"transfer": {"backend": "MooncakeTCP", "rdma": {"requirement": "Disabled"}, "bootstrapPort": 9000}}),
    good("TCP with the default of RDMA", {"transfer.backend": "MooncakeTCP"}),
    good("replicas of two nodes", {"prefill.parallelism": _MULTI_NODE, "decode.parallelism": _MULTI_NODE}),
    good("pipeline on both roles", {"prefill.parallelism": {"pipeline": 2}, "decode.parallelism": {"pipeline": 2}}),
    good("pipeline on prefill only", {"prefill.parallelism": {"pipeline": 4, "nodes": 4}}),
    good("data and expert parallel decode", {"decode.parallelism": {"tensor": 8, "data": 2, "expert": 8}}),
    good(
        "accelerators of another maker",
        {
            "engine.image": "lmsysorg/sglang:v0.5.23-rocm700-mi35x",
            "transfer.backend": "MoRI",
            "prefill.accelerator": {"resourceName": "amd.com/gpu", "count": 8},
            "decode.accelerator": {"resourceName": "huawei.com/Ascend910", "type": "MI300X"},
        },
    ),
    good(
        "a gated model",
        {
            "model.servedName": "chat",
            "model.source": {
                "type": "HuggingFace",
                "huggingFace": {"tokenSecretRef": {"name": "hf", "key": "token"}, "revision": "main"},
            },
        },
    ),
    good(
        "weights on a claim",
        {
            "model.name": "/models/llama",
            "model.source": {
                "type": "PersistentVolumeClaim",
                "persistentVolumeClaim": {"claimName": "weights", "subPath": "llama", "readOnly": True},
            },
        },
    ),
    good(
        "weights on the nodes",
        {"model.name": "/models/llama", "model.source": {"type": "HostPath", "hostPath": {"path": "/srv/models"}}},
    ),
    good(
        "engine settings",
        {
            "engine": {
                "version": "0.5.23.post1",
                "pageSize": 16,
                "kvCacheDtype": "fp8_e4m3",
                "contextLength": 131072,
                "quantization": "fp8",
                "memFractionStatic": "0.85",
                "imagePullPolicy": "Never",
                "args": [
                    "--enable-metrics-for-all-schedulers",
                    "--quantization-param-path=/etc/scales.json",
                    "--attention-backend",
                    "torch_native",
                    "-1",
                    "--",
                ],
                "env": [{"name": "OMP_NUM_THREADS", "value": "1"}],
            },
            "prefill.args": ["--chunked-prefill-size", "8192"],
            "decode.args": ["--disaggregation-decode-retraction-backup", "cpu_tensor"],
        },
    ),
    good(
        "amounts as numbers and as texts",
        {
            "prefill.resources": {"requests": {"cpu": 8, "memory": "64Gi"}, "limits": {"memory": "128Gi"}},
            "decode.sharedMemory": 1073741824,
            "decode.resources.requests": {"cpu": "500m", "memory": "1.5Gi"},
        },
    ),
    good(
        "pods of one's own taste",
        {
            "decode.env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "tokens", "key": "decode"}}}],
            "decode.pod": {
                "labels": {"team": "search"},
                "annotations": {"example.com/owner": "search"},
                "nodeSelector": {"example.com/pool": "gpu"},
                "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists"}],
                "affinity": {"nodeAffinity": {}},
                "priorityClassName": "serving",
                "schedulerName": "default-scheduler",
                "imagePullSecrets": ["registry"],
                "serviceAccountName": "worker",
                "securityContext": {"runAsUser": 1000},
                "volumes": [{"name": "scratch", "emptyDir": {}}],
                "volumeMounts": [{"name": "scratch", "mountPath": "/scratch"}],
                "initContainers": [{"name": "wait", "image": "busybox:1.37", "command": ["true"]}],
            },
        },
    ),
    good("the longest time-outs", {"decode.startupTimeoutSeconds": 86400, "decode.drainTimeoutSeconds": 86400}),
    good("a drain that waits for nothing", {"prefill.drainTimeoutSeconds": 0}),
    good("no disruption budgets", {"disruption": {"enabled": False}}),
    good("several disruptions at once", {"disruption.maxUnavailableReplicas": 3}),
)
