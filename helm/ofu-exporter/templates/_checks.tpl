{{- /* Refuses values that could do nothing without another. */ -}}
{{- define "ofu-exporter.check" -}}
{{- if and .Values.kubernetes.metadata (not .Values.kubernetes.podResources) }}
{{- fail "kubernetes.metadata=true needs kubernetes.podResources=true: without it no pod has a GPU to be asked about" }}
{{- end }}
{{- if and .Values.reports.podTokens (not .Values.kubernetes.metadata) }}
{{- fail "reports.podTokens=true needs kubernetes.metadata=true: without it nobody can ask whose token it is" }}
{{- end }}
{{- if and .Values.traces.hostPath (not .Values.kubernetes.metadata) (not (include "ofu-exporter.hasSlurm" .)) }}
{{- fail "traces.hostPath needs kubernetes.metadata=true, or Slurm in pods: without either nobody knows which job a process is part of" }}
{{- end }}
{{- if and .Values.tls.clientCaSecret (not .Values.tls.secret) }}
{{- fail "tls.clientCaSecret needs tls.secret: without TLS nobody shows a certificate" }}
{{- end }}
{{- if and .Values.podMonitor.enabled .Values.serviceMonitor.enabled }}
{{- fail "podMonitor.enabled=true and serviceMonitor.enabled=true: every agent would be scraped twice; one of the two is enough" }}
{{- end }}
{{- if and .Values.fleetReport.enabled (not .Values.fleetReport.prometheus) }}
{{- fail "fleetReport.enabled=true needs fleetReport.prometheus, the URL of the Prometheus that scrapes the agents" }}
{{- end }}
{{- include "ofu-exporter.checkNode" . }}
{{- include "ofu-exporter.checkSettings" . }}
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
{{- if or (not (regexMatch "^[a-zA-Z_][a-zA-Z0-9_]*$" $name)) (hasPrefix "__" $name) }}
{{- fail (printf "prometheusRule.additionalRuleLabels: Prometheus takes no label %s" $name) }}
{{- end }}
{{- end }}
{{- end }}

{{- /* Refuses what the exporter's settings do not take, wherever it is set: in config, as an argument, as a variable. */ -}}
{{- define "ofu-exporter.checkSettings" -}}
{{- $accepted := .Files.Get "files/settings.yaml" | fromYaml }}
{{- $known := $accepted.settings }}
{{- $told := list }}
{{- $flags := dict }}
{{- $switches := list }}
{{- range $name, $setting := $known }}
{{- $value := get $.Values.config $name }}
{{- if and (not (kindIs "slice" $value)) (ne (toString (default "" $value)) "") }}
{{- $told = append $told (list (printf "config.%s" $name) $value $setting) }}
{{- end }}
{{- range $setting.flags }}{{ $_ := set $flags . $setting }}{{ end }}
{{- $switches = concat $switches (default list $setting.switches) }}
{{- end }}
{{- $flag := "" }}
{{- range .Values.extraArgs }}
{{- $name := first (splitList "=" .) }}
{{- if $flag }}
{{- $told = append $told (list (printf "extraArgs: %s" $flag) . (get $flags $flag)) }}
{{- $flag = "" }}
{{- else if has . $switches }}
{{- else if has $name $switches }}
{{- fail (printf "extraArgs: %s takes no value; its opposite begins with --no-" $name) }}
{{- else if not (hasKey $flags $name) }}
{{- fail (printf "extraArgs: %s is no flag, nor the value of one" .) }}
{{- else if contains "=" . }}
{{- $told = append $told (list (printf "extraArgs: %s" $name) (trimPrefix (printf "%s=" $name) .) (get $flags $name)) }}
{{- else }}
{{- $flag = $name }}
{{- end }}
{{- end }}
{{- if $flag }}
{{- fail (printf "extraArgs: %s has no value" $flag) }}
{{- end }}
{{- range .Values.env }}
{{- $setting := get $known (trimPrefix "OFU_" .name | lower) }}
{{- $is := dict "other" (or (not (hasPrefix "OFU_" .name)) (has .name $accepted.others.variables)) }}
{{- $name := .name }}
{{- range $accepted.others.prefixes }}
{{- if hasPrefix . $name }}{{ $_ := set $is "other" true }}{{ end }}
{{- end }}
{{- if $is.other }}
{{- else if not $setting }}
{{- fail (printf "env: %s is no setting of the exporter" .name) }}
{{- else if hasKey . "value" }}
{{- $told = append $told (list (printf "env: %s" .name) .value $setting) }}
{{- end }}
{{- end }}
{{- range $told }}
{{- include "ofu-exporter.checkSetting" . }}
{{- end }}
{{- end }}

{{- /* Refuses a value that a setting does not take; the argument: where it is set, the value, what the setting takes. */ -}}
{{- define "ofu-exporter.checkSetting" -}}
{{- $value := index . 1 | toString }}
{{- $setting := last . }}
{{- with $setting.pattern }}
{{- if not (regexMatch . $value) }}
{{- fail (printf "%s=%s is not %s" (first $) $value $setting.what) }}
{{- end }}
{{- end }}
{{- $number := 0.0 }}
{{- $unit := "" }}
{{- if hasPrefix "a duration" (default "" $setting.what) }}
{{- $number = include "ofu-exporter.seconds" $value | float64 }}
{{- $unit = " seconds" }}
{{- else if hasSuffix "number" (default "" $setting.what) }}
{{- $number = trim $value | float64 }}
{{- end }}
{{- $bounds := list }}
{{- $outside := false }}
{{- range $name, $word := dict "least" "at least" "above" "above" "most" "at most" "below" "below" }}
{{- if hasKey $setting $name }}
{{- $bound := get $setting $name | float64 }}
{{- $bounds = append $bounds (printf "%s %v" $word $bound) }}
{{- if or (and (eq $name "least") (lt $number $bound)) (and (eq $name "above") (le $number $bound)) (and (eq $name "most") (gt $number $bound)) (and (eq $name "below") (ge $number $bound)) }}
{{- $outside = true }}
{{- end }}
{{- end }}
{{- end }}
{{- if $outside }}
{{- fail (printf "%s=%s is not %s%s" (first .) $value (join " and " $bounds) $unit) }}
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
