{{/*
What the operator may do where it manages services. Each rule belongs to calls of operator/pd_operator; the chart's tests
compare it with the operator's own list. Roles are applied cluster-wide or, in namespaced mode, once per namespace.
*/}}
{{- define "pd-operator.rules" -}}
- apiGroups: [pdinference.dev]
  resources: [pdinferenceservices]
  verbs: [get, list, watch, patch]
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
  verbs: [get, list, watch, patch]
- apiGroups: [""]
  resources: [events]
  verbs: [get, list, create, patch]
{{- end -}}
