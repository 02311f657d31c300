{{/*
What the operator may do where it manages services: exactly its own list in operator/pd_operator/adapters/permissions.py,
which the chart's tests compare, and what owner references take. Roles are applied cluster-wide or, in namespaced mode, once per namespace.
*/}}
{{- define "pd-operator.rules" -}}
- apiGroups: [pdinference.dev]
  resources: [pdinferenceservices]
  verbs: [get, list, watch]
- apiGroups: [pdinference.dev]
  resources: [pdinferenceservices/status]
  verbs: [patch]
# Owner references with blockOwnerDeletion need it where OwnerReferencesPermissionEnforcement is on, as on OpenShift.
- apiGroups: [pdinference.dev]
  resources: [pdinferenceservices/finalizers]
  verbs: [update]
- apiGroups: [apps]
  resources: [statefulsets, deployments]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [services, serviceaccounts]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [policy]
  resources: [poddisruptionbudgets]
  verbs: [get, list, watch, create, patch, delete]
# The router's Role. Nobody can grant what they do not hold: `pods` below is also what the router gets.
- apiGroups: [rbac.authorization.k8s.io]
  resources: [roles, rolebindings]
  verbs: [get, list, watch, create, patch, delete]
- apiGroups: [""]
  resources: [pods]
  verbs: [get, list, watch, patch, delete]
# Why a pod does not come up is in events of the core API; its own go to the newer one.
- apiGroups: [""]
  resources: [events]
  verbs: [list]
- apiGroups: [events.k8s.io]
  resources: [events]
  verbs: [create]
{{- end -}}
