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

{{- /* Of the pod of `helm test`. */ -}}
{{- define "ofu-exporter.testLabels" -}}
app.kubernetes.io/name: {{ include "ofu-exporter.name" . | trunc 58 | trimSuffix "-" }}-test
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

{{- /* Kubelet's socket is open to its owner only, which is root. A capability is added to a container's
       bounds, and there only root picks it up. */ -}}
{{- define "ofu-exporter.securityContext" -}}
{{- $root := or .Values.kubernetes.podResources .Values.driver.sysAdmin }}
{{- $context := ternary (dict "runAsNonRoot" false "runAsUser" 0) dict $root }}
{{- $context = mergeOverwrite $context (deepCopy (default dict .Values.securityContext)) }}
{{- if .Values.driver.sysAdmin }}
{{- $capabilities := default dict $context.capabilities }}
{{- $added := append (default list $capabilities.add) "SYS_ADMIN" | uniq }}
{{- $_ := set $context "capabilities" (set (deepCopy $capabilities) "add" $added) }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{- /* Of objects that no namespace keeps apart. */ -}}
{{- define "ofu-exporter.clusterName" -}}
{{- printf "%s-%s" .Release.Namespace (include "ofu-exporter.fullname" .) }}
{{- end }}

{{- /* "true" where the API server is asked for jobs. */ -}}
{{- define "ofu-exporter.metadata" -}}
{{- if and .Values.kubernetes.podResources .Values.kubernetes.metadata }}true{{ end }}
{{- end }}

{{- /* What PodMonitor and ServiceMonitor say of one endpoint; the argument is the values of the one, and
       the root. */ -}}
{{- define "ofu-exporter.endpoint" -}}
{{- $monitor := .monitor -}}
port: metrics
path: /metrics
{{- with .root.Values.tls }}
{{- if .secret }}
scheme: https
tlsConfig:
  ca:
    secret:
      name: {{ .secret }}
      key: ca.crt
  serverName: {{ .serverName }}
{{- end }}
{{- end }}
interval: {{ $monitor.interval }}
scrapeTimeout: {{ $monitor.scrapeTimeout }}
# The namespace of a job is a label of its own (ofu_job_info), which must not be renamed.
honorLabels: true
relabelings:
  # The node is what stays the same when a pod is replaced; its name and address would begin new series.
  - sourceLabels: [__meta_kubernetes_pod_node_name]
    targetLabel: instance
  - action: labeldrop
    regex: pod
  {{- with .root.Values.cluster }}
  - targetLabel: cluster
    replacement: {{ . | quote }}
  {{- end }}
  {{- with $monitor.relabelings }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- end }}

{{- /* Of the probes. */ -}}
{{- define "ofu-exporter.scheme" -}}
scheme: {{ ternary "HTTPS" "HTTP" (not (empty .Values.tls.secret)) }}
{{- end }}
