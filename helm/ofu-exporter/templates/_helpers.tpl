{{- define "ofu-exporter.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- /* The release's name, with the chart's unless it is in it already. */ -}}
{{- define "ofu-exporter.fullname" -}}
{{- $name := default .Chart.Name .Values.nameOverride }}
{{- $full := ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) }}
{{- default $full .Values.fullnameOverride | trunc 63 | trimSuffix "-" }}
{{- end }}

{{- define "ofu-exporter.namespace" -}}
{{- default .Release.Namespace .Values.namespaceOverride }}
{{- end }}

{{- /* Of objects that no namespace keeps apart. */ -}}
{{- define "ofu-exporter.clusterName" -}}
{{- printf "%s-%s" (include "ofu-exporter.namespace" .) (include "ofu-exporter.fullname" .) }}
{{- end }}

{{- /* What the selectors use: must never change, since a DaemonSet's selector cannot. */ -}}
{{- define "ofu-exporter.selectorLabels" -}}
app.kubernetes.io/name: {{ include "ofu-exporter.name" . | quote }}
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* Of the pod of `helm test`. */ -}}
{{- define "ofu-exporter.testLabels" -}}
app.kubernetes.io/name: {{ include "ofu-exporter.name" . | trunc 58 | trimSuffix "-" }}-test
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- define "ofu-exporter.labels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
{{ include "ofu-exporter.selectorLabels" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- /* Labels and annotations of an object. The argument: root, own (the chart's labels, which count first),
       labels and annotations. */ -}}
{{- define "ofu-exporter.tags" -}}
labels:
  {{- merge (fromYaml .own) (deepCopy (default dict .labels)) (deepCopy .root.Values.commonLabels) | toYaml | nindent 2 }}
{{- with .annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The metadata of an object. The argument: root, and where they are not the usual ones, name, namespace
       ("-": none), labels and annotations. */ -}}
{{- define "ofu-exporter.metadata" -}}
name: {{ default (include "ofu-exporter.fullname" .root) .name | quote }}
{{- if ne (default "" .namespace) "-" }}
namespace: {{ default (include "ofu-exporter.namespace" .root) .namespace | quote }}
{{- end }}
{{ include "ofu-exporter.tags" (set . "own" (include "ofu-exporter.labels" .root)) }}
{{- end }}

{{- define "ofu-exporter.serviceAccountName" -}}
{{- default (ternary (include "ofu-exporter.fullname" .) "default" .Values.serviceAccount.create) .Values.serviceAccount.name }}
{{- end }}

{{- define "ofu-exporter.image" -}}
{{- with default .Values.image.registry .Values.global.imageRegistry }}{{ . }}/{{ end }}
{{- printf "%s:%s" .Values.image.repository (default .Chart.AppVersion .Values.image.tag) }}
{{- with .Values.image.digest }}@{{ . }}{{ end }}
{{- end }}

{{- /* What the exporter's pods and the pod of `helm test` have in common: the image's Secrets, and where they run. */ -}}
{{- define "ofu-exporter.placement" -}}
{{- $secrets := list }}
{{- range concat .Values.imagePullSecrets .Values.global.imagePullSecrets }}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) }}
{{- end }}
{{- with $secrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- range $key := list "nodeSelector" "affinity" "tolerations" }}
{{- with index $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* The port at the end of config.listen: HOST:PORT, [V6]:PORT or :PORT. */ -}}
{{- define "ofu-exporter.port" -}}
{{- .Values.config.listen | splitList ":" | last }}
{{- end }}

{{- define "ofu-exporter.nodeServiceName" -}}
{{- printf "%s-node" (include "ofu-exporter.fullname" . | trunc 58 | trimSuffix "-") }}
{{- end }}

{{- /* Whether Slurm's jobs hold GPUs of pods. */ -}}
{{- define "ofu-exporter.hasSlurm" -}}
{{- if or .Values.slurm.jobsHostPath .Values.slurm.jobMapHostPath }}true{{ end }}
{{- end }}

{{- /* The exporter's configuration file. SERVICE, SERVICE.NAMESPACE.svc and what ends on cluster.local are names that
       it knows by itself. */ -}}
{{- define "ofu-exporter.config" -}}
{{- $scheduler := ternary "kubernetes" "none" .Values.kubernetes.podResources }}
{{- if include "ofu-exporter.hasSlurm" . }}
{{- $scheduler = ternary "auto" "slurm" .Values.kubernetes.podResources }}
{{- end }}
{{- $namespace := include "ofu-exporter.namespace" . }}
{{- $hosts := list (printf "%s.%s" (include "ofu-exporter.fullname" .) $namespace) }}
{{- if .Values.reports.nodeService }}
{{- $hosts = append $hosts (printf "%s.%s" (include "ofu-exporter.nodeServiceName" .) $namespace) }}
{{- end }}
{{- with .Values.config.allowed_hosts }}
{{- $hosts = append $hosts . }}
{{- end }}
{{- $own := dict "scheduler" (default $scheduler .Values.config.scheduler) "allowed_hosts" (join "," $hosts) }}
{{- toYaml (merge $own .Values.config) }}
{{- end }}

{{- /* Kubelet's socket is open to its owner only, which is root. A capability is added to a container's
       bounds, and there only root picks it up. Kubernetes refuses privileged and CAP_SYS_ADMIN without
       escalation. */ -}}
{{- define "ofu-exporter.securityContext" -}}
{{- $root := or .Values.kubernetes.podResources .Values.driver.sysAdmin }}
{{- $context := ternary (dict "runAsNonRoot" false "runAsUser" 0) dict $root }}
{{- $context = mergeOverwrite $context (deepCopy (default dict .Values.securityContext)) }}
{{- if .Values.driver.sysAdmin }}
{{- $capabilities := default dict $context.capabilities }}
{{- $added := append (default list $capabilities.add) "SYS_ADMIN" | uniq }}
{{- $_ := set $context "capabilities" (set (deepCopy $capabilities) "add" $added) }}
{{- end }}
{{- if or $context.privileged (has "CAP_SYS_ADMIN" (default list (default dict $context.capabilities).add)) }}
{{- $_ := set $context "allowPrivilegeEscalation" true }}
{{- end }}
{{- toYaml $context }}
{{- end }}

{{- /* Refuses values that could do nothing without another. */ -}}
{{- define "ofu-exporter.check" -}}
{{- if and .Values.kubernetes.metadata (not .Values.kubernetes.podResources) }}
{{- fail "kubernetes.metadata=true needs kubernetes.podResources=true: without it no pod has a GPU to be asked about" }}
{{- end }}
{{- if and .Values.reports.podTokens (not .Values.kubernetes.metadata) }}
{{- fail "reports.podTokens=true needs kubernetes.metadata=true: without it nobody can ask whose token it is" }}
{{- end }}
{{- if and .Values.tls.clientCaSecret (not .Values.tls.secret) }}
{{- fail "tls.clientCaSecret needs tls.secret: without TLS nobody shows a certificate" }}
{{- end }}
{{- if and .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}
{{- fail "podMonitor.enabled=true and serviceMonitor.enabled=true: every agent would be scraped twice; one of the two is enough" }}
{{- end }}
{{- include "ofu-exporter.checkNode" . }}
{{- include "ofu-exporter.checkBounds" . }}
{{- range $kind := list "podMonitor" "serviceMonitor" }}
{{- $monitor := merge (deepCopy (index $.Values $kind)) $.Values.podMonitor }}
{{- if (index $.Values $kind).enabled }}
{{- if gt (include "ofu-exporter.seconds" $monitor.scrapeTimeout | float64) (include "ofu-exporter.seconds" $monitor.interval | float64) }}
{{- fail (printf "%s.scrapeTimeout=%s is above its interval %s: the Prometheus operator refuses that" $kind $monitor.scrapeTimeout $monitor.interval) }}
{{- end }}
{{- if and $.Values.webConfig.secret (not $monitor.basicAuth) (not $monitor.authorization) }}
{{- fail (printf "webConfig.secret closes the page: give %s.basicAuth or %s.authorization, or it is never scraped" $kind $kind) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Refuses values that a node, Kubernetes or Prometheus would refuse only later. */ -}}
{{- define "ofu-exporter.checkNode" -}}
{{- $listen := .Values.config.listen }}
{{- $port := include "ofu-exporter.port" . | atoi }}
{{- if or (lt $port 1) (gt $port 65535) }}
{{- fail (printf "config.listen=%s ends in no port from 1 to 65535" $listen) }}
{{- end }}
{{- if regexMatch "^(127\\.|localhost:|\\[::1\\])" $listen }}
{{- fail (printf "config.listen=%s is reached from inside the pod alone: neither Prometheus nor the probes get there" $listen) }}
{{- end }}
{{- $source := default "auto" .Values.config.source | toString }}
{{- if and (not .Values.driver.enabled) (has $source (list "auto" "nvml")) }}
{{- fail (printf "driver.enabled=false leaves config.source=%s without a driver: name dcgm-exporter or dcgm" $source) }}
{{- end }}
{{- if and (contains "kubernetes" (default "" .Values.config.scheduler | toString)) (not .Values.kubernetes.podResources) }}
{{- fail "config.scheduler=kubernetes needs kubernetes.podResources=true: kubelet's socket is not in the pod" }}
{{- end }}
{{- if regexMatch "^([^/]*/)*[^/]*:[^/]*$" .Values.image.repository }}
{{- fail (printf "image.repository=%s has a tag: that is image.tag" .Values.image.repository) }}
{{- end }}
{{- range $kind, $sizes := .Values.resources }}
{{- if and (kindIs "map" $sizes) (hasSuffix "m" (default "" $sizes.memory | toString)) }}
{{- fail (printf "resources.%s.memory=%s is in thousandths of a byte: write %si" $kind $sizes.memory (trimSuffix "m" $sizes.memory | printf "%sM")) }}
{{- end }}
{{- end }}
{{- with .Values.updateStrategy.type }}
{{- if not (has . (list "RollingUpdate" "OnDelete")) }}
{{- fail (printf "updateStrategy.type=%s is none of a DaemonSet: RollingUpdate or OnDelete" .) }}
{{- end }}
{{- end }}
{{- range .Values.tolerations }}
{{- if not (has (default "Equal" .operator) (list "Exists" "Equal" "Lt" "Gt")) }}
{{- fail (printf "tolerations: operator %s is not known: Exists or Equal" .operator) }}
{{- end }}
{{- end }}
{{- range $name, $_ := .Values.prometheusRule.additionalRuleLabels }}
{{- if not (regexMatch "^[a-zA-Z_][a-zA-Z0-9_]*$" $name) }}
{{- fail (printf "prometheusRule.additionalRuleLabels: Prometheus takes no label %s" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Refuses a duration outside of the exporter's bounds, wherever it is set: in config, as an argument, as a variable. */ -}}
{{- define "ofu-exporter.checkBounds" -}}
{{- range $name, $bounds := .Files.Get "files/setting-bounds.yaml" | fromYaml }}
{{- $flag := printf "--%s=" ($name | replace "_" "-") }}
{{- $told := list (list (printf "config.%s" $name) (get $.Values.config $name)) }}
{{- range $.Values.extraArgs }}
{{- if hasPrefix $flag . }}
{{- $told = append $told (list (printf "extraArgs: %s" (trimSuffix "=" $flag)) (trimPrefix $flag .)) }}
{{- end }}
{{- end }}
{{- range $.Values.env }}
{{- if and (eq .name (printf "OFU_%s" ($name | upper))) .value }}
{{- $told = append $told (list (printf "env: %s" .name) .value) }}
{{- end }}
{{- end }}
{{- range $told }}
{{- $value := last . | toString }}
{{- if ne $value "" }}
{{- if not (regexMatch "^\\s*([0-9]*\\.?[0-9]+\\s*(ms|s|m|h|)\\s*)+$" $value) }}
{{- fail (printf "%s=%s is no duration, such as 5s" (first .) $value) }}
{{- end }}
{{- $seconds := include "ofu-exporter.seconds" $value | float64 }}
{{- if or (lt $seconds (float64 $bounds.least)) (gt $seconds (float64 $bounds.most)) }}
{{- fail (printf "%s=%s is not between %v and %v seconds" (first .) $value $bounds.least $bounds.most) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* A duration in seconds: 500ms, 1m30s, 5, 0.5s. */ -}}
{{- define "ofu-exporter.seconds" -}}
{{- $sum := 0.0 }}
{{- range regexFindAll "[0-9]*\\.?[0-9]+ *(ms|s|m|h|)" (toString .) -1 }}
{{- $unit := regexFind "[a-z]*$" . }}
{{- $factor := get (dict "ms" 0.001 "s" 1.0 "m" 60.0 "h" 3600.0 "" 1.0) $unit }}
{{- $sum = addf $sum (mulf (trimSuffix $unit . | trim | float64) $factor) }}
{{- end }}
{{- $sum }}
{{- end }}

{{- /* "true" where the API server is asked for jobs. */ -}}
{{- define "ofu-exporter.asksApi" -}}
{{- if .Values.kubernetes.metadata }}true{{ end }}
{{- end }}

{{- define "ofu-exporter.scheme" -}}
{{- ternary "https" "http" (not (empty .Values.tls.secret)) }}
{{- end }}

{{- /* "true" where nobody is let in without a certificate or a password. */ -}}
{{- define "ofu-exporter.closed" -}}
{{- if or .Values.tls.clientCaSecret .Values.webConfig.secret }}true{{ end }}
{{- end }}

{{- /* A probe; the argument: root, probe (its values), path. Its own handler counts first. Health needs no password, but
       kubelet has no certificate: where that is asked for, the open port has to do. */ -}}
{{- define "ofu-exporter.probe" -}}
{{- $handler := dict "httpGet" (dict "path" .path "port" "metrics" "scheme" (include "ofu-exporter.scheme" .root | upper)) }}
{{- if .root.Values.tls.clientCaSecret }}
{{- $handler = dict "tcpSocket" (dict "port" "metrics") }}
{{- end }}
{{- range list "exec" "grpc" "httpGet" "tcpSocket" }}
{{- if hasKey $.probe . }}{{ $handler = dict }}{{ end }}
{{- end }}
{{- toYaml (merge $handler .probe) }}
{{- end }}

{{- /* What a PodMonitor and a ServiceMonitor have in common but for the endpoint; the argument: root, monitor. */ -}}
{{- define "ofu-exporter.monitor" -}}
{{- /* The scrape job has the chart's name, not the release's: rules know it by that. */ -}}
jobLabel: app.kubernetes.io/name
namespaceSelector:
  matchNames: [{{ include "ofu-exporter.namespace" .root }}]
{{- range $limit := list "sampleLimit" "targetLimit" "labelLimit" "labelNameLengthLimit" "labelValueLengthLimit" }}
{{- with index $.monitor $limit }}
{{ $limit }}: {{ int64 . }}
{{- end }}
{{- end }}
{{- with .monitor.podTargetLabels }}
podTargetLabels:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .monitor.attachMetadata }}
attachMetadata:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* What they say of the one endpoint. */ -}}
{{- define "ofu-exporter.endpoint" -}}
{{- $monitor := .monitor -}}
{{- $tls := dict }}
{{- with .root.Values.tls }}
{{- if .secret }}
{{- $tls = dict "ca" (dict "secret" (dict "name" .secret "key" "ca.crt")) "serverName" .serverName }}
{{- end }}
{{- end -}}
port: metrics
path: /metrics
scheme: {{ default (include "ofu-exporter.scheme" .root) $monitor.scheme }}
{{- with mergeOverwrite $tls (deepCopy $monitor.tlsConfig) }}
tlsConfig:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.authorization }}
authorization:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $monitor.basicAuth }}
basicAuth:
  {{- toYaml . | nindent 2 }}
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
{{- with $monitor.metricRelabelings }}
metricRelabelings:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* A quantity of memory as a product in PromQL: 128Mi is 128 * 2 ^ 20. */}}
{{- define "ofu-exporter.bytes" -}}
{{- $unit := regexFind "[A-Za-z]+$" (toString .) }}
{{- $binary := dict "Ki" 10 "Mi" 20 "Gi" 30 "Ti" 40 }}
{{- $decimal := dict "k" 3 "M" 6 "G" 9 "T" 12 }}
{{- trimSuffix $unit (toString .) }}
{{- with get $binary $unit }} * 2 ^ {{ . }}{{ end }}
{{- with get $decimal $unit }} * 10 ^ {{ . }}{{ end }}
{{- end }}
