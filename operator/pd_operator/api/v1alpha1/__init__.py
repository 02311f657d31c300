"""`pdinference.dev/v1alpha1` as pydantic models: the one source of the CRD."""

from pd_operator.api.v1alpha1.base import EnvVar, Model, SecretKeyRef
from pd_operator.api.v1alpha1.engine import (
    OWNED_FLAGS,
    EngineSpec,
    ModelSpec,
    RDMARequirement,
    SourceType,
    TransferBackend,
    TransferSpec,
    owned_flag,
)
from pd_operator.api.v1alpha1.role import Parallelism, PodOverlay, ResourceRequirements, RoleSpec
from pd_operator.api.v1alpha1.router import RouterPolicy, RouterSpec, RouterType
from pd_operator.api.v1alpha1.scaling import OnMissing, ScalingApply, ScalingMode, ScalingSpec, SLOSpec
from pd_operator.api.v1alpha1.service import (
    MAX_NAME_LENGTH,
    Metadata,
    PDInferenceService,
    PDInferenceServiceSpec,
)
from pd_operator.api.v1alpha1.status import (
    AcceleratorStatus,
    Condition,
    ConditionStatus,
    Decision,
    GenerationStatus,
    PDInferenceServiceStatus,
    Recommendation,
    RoleStatus,
    ScalingStatus,
    SLOStatus,
)

__all__ = [
    "MAX_NAME_LENGTH",
    "OWNED_FLAGS",
    "AcceleratorStatus",
    "Condition",
    "ConditionStatus",
    "Decision",
    "EngineSpec",
    "EnvVar",
    "GenerationStatus",
    "Metadata",
    "Model",
    "ModelSpec",
    "OnMissing",
    "PDInferenceService",
    "PDInferenceServiceSpec",
    "PDInferenceServiceStatus",
    "Parallelism",
    "PodOverlay",
    "RDMARequirement",
    "Recommendation",
    "ResourceRequirements",
    "RoleSpec",
    "RoleStatus",
    "RouterPolicy",
    "RouterSpec",
    "RouterType",
    "SLOSpec",
    "SLOStatus",
    "ScalingApply",
    "ScalingMode",
    "ScalingSpec",
    "ScalingStatus",
    "SecretKeyRef",
    "SourceType",
    "TransferBackend",
    "TransferSpec",
    "owned_flag",
]
