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

{{- define "ofu-exporter.reportName" -}}
{{- printf "%s-report" (include "ofu-exporter.fullname" . | trunc 45 | trimSuffix "-") }}
{{- end }}

{{- /* Of the pods that report on the fleet: not the selector's, or the service would count them among the exporters. */ -}}
{{- define "ofu-exporter.reportLabels" -}}
app.kubernetes.io/name: {{ include "ofu-exporter.name" . | trunc 56 | trimSuffix "-" }}-report
app.kubernetes.io/instance: {{ .Release.Name | quote }}
{{- end }}

{{- /* The pod that reports on the fleet. The argument: root, args, and isKept where it has the folder. */ -}}
{{- define "ofu-exporter.reportPod" -}}
{{- with .root.Values.fleetReport }}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
{{- include "ofu-exporter.pullSecrets" $.root | trim | nindent 0 }}
{{- range $key := list "nodeSelector" "tolerations" }}
{{- with index $.root.Values.fleetReport $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
securityContext:
  {{- toYaml .podSecurityContext | nindent 2 }}
containers:
  - name: report
    image: {{ include "ofu-exporter.image" $.root | quote }}
    imagePullPolicy: {{ $.root.Values.image.pullPolicy }}
    args:
      {{- concat (list "fleet" "report" "--prometheus" .prometheus) $.args .extraArgs | toYaml | nindent 6 }}
    env:
      - name: NVIDIA_VISIBLE_DEVICES
        value: void
      {{- with .env }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    resources:
      {{- toYaml .resources | nindent 6 }}
    securityContext:
      {{- toYaml .securityContext | nindent 6 }}
    {{- if $.isKept }}
    volumeMounts:
      - name: reports
        mountPath: /reports
      {{- if .prices }}
      - name: prices
        mountPath: /config
      {{- end }}
volumes:
  - name: reports
    persistentVolumeClaim:
      claimName: {{ default (include "ofu-exporter.reportName" $.root) .existingClaim | quote }}
  {{- if .prices }}
  - name: prices
    configMap:
      name: {{ include "ofu-exporter.reportName" $.root | quote }}
  {{- end }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What the exporter's pods and the pod of `helm test` have in common: the image's Secrets, and where they run. */ -}}
{{- define "ofu-exporter.placement" -}}
{{- include "ofu-exporter.pullSecrets" . }}
{{- range $key := list "nodeSelector" "affinity" "tolerations" }}
{{- with index $.Values $key }}
{{ $key }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- define "ofu-exporter.pullSecrets" -}}
{{- $secrets := list }}
{{- range concat .Values.imagePullSecrets .Values.global.imagePullSecrets }}
{{- $secrets = append $secrets (ternary (dict "name" .) . (kindIs "string" .)) }}
{{- end }}
{{- with $secrets }}
imagePullSecrets:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- /* The port at the end of config.listen: HOST:PORT, [V6]:PORT or :PORT. */ -}}
{{- define "ofu-exporter.port" -}}
{{- .Values.config.listen | splitList ":" | last }}
{{- end }}

{{- define "ofu-exporter.servicePort" -}}
{{- int .Values.service.port | default (include "ofu-exporter.port" . | int) }}
{{- end }}

{{- define "ofu-exporter.nodeServiceName" -}}
{{- printf "%s-node" (include "ofu-exporter.fullname" . | trunc 58 | trimSuffix "-") }}
{{- end }}

{{- /* Whether Slurm's jobs hold GPUs of pods. */ -}}
{{- define "ofu-exporter.hasSlurm" -}}
{{- if or .Values.slurm.jobsHostPath .Values.slurm.jobMapHostPath }}true{{ end }}
{{- end }}

{{- /* What the container may use: a process that reads a trace takes memory besides. */ -}}
{{- define "ofu-exporter.resources" -}}
{{- $resources := deepCopy (default dict .Values.resources) }}
{{- if and .Values.traces.hostPath ($resources.limits).memory }}
{{- $_ := set $resources.limits "memory" .Values.traces.memoryLimit }}
{{- end }}
{{- toYaml $resources }}
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
