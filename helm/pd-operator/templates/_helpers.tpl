{{- define "pd-operator.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" -}}
{{- end -}}

{{/* Name of the objects: at most 50 characters, which leaves room for suffixes. */}}
{{- define "pd-operator.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else if contains (include "pd-operator.name" .) .Release.Name -}}
{{- .Release.Name | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name (include "pd-operator.name" .) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{- define "pd-operator.selectorLabels" -}}
app.kubernetes.io/name: {{ include "pd-operator.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{/* Labels of every object. `commonLabels` may replace what only people read, not what selectors and Helm go by. */}}
{{- define "pd-operator.labels" -}}
{{- $readable := dict
  "app.kubernetes.io/component" "operator"
  "app.kubernetes.io/part-of" "pd-operator"
  "app.kubernetes.io/version" .Chart.AppVersion
  "helm.sh/chart" (printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_") -}}
{{- $fixed := include "pd-operator.selectorLabels" . | fromYaml -}}
{{- $_ := set $fixed "app.kubernetes.io/managed-by" .Release.Service -}}
{{- toYaml (mergeOverwrite $readable .Values.commonLabels $fixed) -}}
{{- end -}}

{{- define "pd-operator.podLabels" -}}
{{- $labels := include "pd-operator.labels" . | fromYaml -}}
{{- $fixed := include "pd-operator.selectorLabels" . | fromYaml -}}
{{- toYaml (mergeOverwrite $labels .Values.podLabels $fixed) -}}
{{- end -}}

{{- define "pd-operator.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "pd-operator.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end -}}

{{- define "pd-operator.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) -}}
{{- end -}}
{{- end -}}
