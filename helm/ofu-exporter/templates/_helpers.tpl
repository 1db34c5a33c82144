{{- define "ofu-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The release's name, with the chart's unless it is in it already. */ -}}
{{- define "ofu-exporter.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* What the selectors use: must never change, since a DaemonSet's selector cannot. */ -}}
{{- define "ofu-exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ofu-exporter.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "ofu-exporter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "ofu-exporter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "ofu-exporter.serviceAccountName" -}}
{{- default (ternary (include "ofu-exporter.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "ofu-exporter.image" -}}
{{- $tag := default .Chart.AppVersion .Values.image.tag }}
{{- printf "%s:%s" .Values.image.repository $tag }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- /* The port at the end of config.listen: HOST:PORT, [V6]:PORT or :PORT. */ -}}
{{- define "ofu-exporter.port" -}}
{{- .Values.config.listen | splitList ":" | last }}
{{- end }}

{{- define "ofu-exporter.config" -}}
{{ toYaml .Values.config }}
{{- end }}

{{- /* Kubelet's socket is open to its owner only, which is root. */ -}}
{{- define "ofu-exporter.securityContext" -}}
{{- $owner := ternary (dict "runAsNonRoot" false "runAsUser" 0) dict .Values.kubernetes.podResources }}
{{- mergeOverwrite $owner (default dict .Values.securityContext) | toYaml }}
{{- end }}

{{- /* Of objects that no namespace keeps apart. */ -}}
{{- define "ofu-exporter.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "ofu-exporter.fullname" .) }}
{{- end }}

{{- /* "true" where the API server is asked for jobs. */ -}}
{{- define "ofu-exporter.metadata" -}}
{{- if and .Values.kubernetes.podResources .Values.kubernetes.metadata }}true{{ end }}
{{- end }}
