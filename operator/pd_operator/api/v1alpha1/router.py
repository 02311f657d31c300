"""The router in front of the workers."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Final

from pydantic import Field

from pd_operator.api.v1alpha1.base import Args, Env, Model, Port, StringMap, nested
from pd_operator.api.v1alpha1.engine import PullPolicy
from pd_operator.api.v1alpha1.role import PodOverlay, ResourceRequirements

DEFAULT_ROUTER_IMAGE: Final = "lightseekorg/smg:1.13.0"


class RouterType(StrEnum):
    SMG = "SMG"
    NONE = "None"


class RouterPolicy(StrEnum):
    CACHE_AWARE = "CacheAware"
    POWER_OF_TWO = "PowerOfTwo"
    ROUND_ROBIN = "RoundRobin"
    RANDOM = "Random"
    LEAST_LOAD = "LeastLoad"
    CONSISTENT_HASHING = "ConsistentHashing"


class ServiceType(StrEnum):
    CLUSTER_IP = "ClusterIP"
    NODE_PORT = "NodePort"
    LOAD_BALANCER = "LoadBalancer"


class RouterService(Model):
    """The Service that clients talk to; it has the name of the PDInferenceService."""

    type: ServiceType = ServiceType.CLUSTER_IP
    """Type of the Service."""
    port: Port = 8000
    """Port of the Service."""
    annotations: StringMap = Field(default_factory=dict)
    """Annotations of the Service (cloud load balancers read them)."""


class RouterSpec(Model):
    """The router that pairs a prefill and a decode worker for each request."""

    type: RouterType = RouterType.SMG
    """`SMG` runs the Shepherd Model Gateway; `None` leaves routing to you."""
    image: Annotated[str, Field(min_length=1, max_length=512)] = DEFAULT_ROUTER_IMAGE
    """Image of the router; `python3 -m smg.launch_router` must work in it."""
    image_pull_policy: PullPolicy = PullPolicy.IF_NOT_PRESENT
    """When the image is pulled."""
    replicas: Annotated[int, Field(ge=1, le=100)] = 1
    """Router pods."""
    policy: RouterPolicy = RouterPolicy.CACHE_AWARE
    """How a worker is chosen."""
    args: Args = ()
    """More SMG arguments."""
    env: Env = ()
    """More environment variables."""
    resources: ResourceRequirements = nested(ResourceRequirements)
    """CPU and memory; default requests are 500m and 512Mi."""
    service: RouterService = nested(RouterService)
    """The Service in front of the router."""
    pod: PodOverlay = nested(PodOverlay)
    """Additions to the pods."""
