{{/*
feedsink.yaml: config, and what the chart knows itself. What config says about the
same keys is overruled where it cannot be true in the pod, and kept elsewhere.
*/}}
{{- define "feedsink.config" -}}
{{- $dir := "/run/secrets/feedsink" -}}
{{- $config := deepCopy .Values.config -}}
{{- $secrets := .Values.secrets -}}
{{- $service := $config.service -}}
{{- $kafka := $config.kafka -}}
{{- $sasl := $kafka.sasl | default dict -}}
{{- $oauth := $sasl.oauth | default dict -}}
{{- $registry := $config.schemaRegistry | default dict -}}
{{- $receipts := $config.receipts | default dict -}}
{{- $admin := $config.admin | default dict -}}
{{- $webhook := $admin.webhook | default dict -}}
{{- $ofClient := eq ($sasl.mechanism | default "") "OAUTHBEARER" -}}
{{- range list
  (list (ternary dict $secrets.apiKey (not (empty $service.apiKey))) $service "apiKeyFile" "api-key")
  (list $secrets.kafkaPassword (ternary $oauth $sasl $ofClient) (ternary "clientSecretFile" "passwordFile" $ofClient) "kafka-password")
  (list $secrets.kafkaToken $oauth "tokenFile" "kafka-token")
  (list $secrets.registryPassword $registry "passwordFile" "registry-password")
  (list $secrets.receiptsKey $receipts "keyFile" "receipts-key")
  (list $secrets.adminToken $admin "tokenFile" "admin-token")
  (list $secrets.webhook $webhook "secretFile" "webhook-secret")
-}}
{{- if (first .).name -}}{{- $_ := set (index . 1) (index . 2) (printf "%s/%s" $dir (last .)) -}}{{- end -}}
{{- end -}}
{{- range list
  (list $secrets.kafkaTLS $kafka "kafka")
  (list $secrets.oauthTLS $oauth "oauth")
  (list $secrets.registryTLS $registry "registry")
  (list $secrets.serviceTLS $service "service")
  (list (omit $secrets.adminTLS "ca") $admin "admin")
-}}
{{- $path := printf "%s/%s" $dir (last .) -}}
{{- $into := index . 1 -}}
{{- with first . -}}
{{- if .name -}}
{{- $tls := dict -}}
{{- if .ca -}}{{- $_ := set $tls "caFile" (printf "%s-ca.crt" $path) -}}{{- end -}}
{{- if .cert -}}{{- $_ := set $tls "certFile" (printf "%s.crt" $path) -}}{{- end -}}
{{- if .key -}}{{- $_ := set $tls "keyFile" (printf "%s.key" $path) -}}{{- end -}}
{{- $_ := set $into "tls" (merge $tls ($into.tls | default dict)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if $secrets.kafkaTLS.name -}}{{- $_ := set $kafka.tls "enabled" true -}}{{- end -}}
{{- $lanes := include "feedsink.deployments" . | fromJsonArray -}}
{{- if and $secrets.webhook.name (or (has "batch" $lanes) (has "all" $lanes)) -}}
{{- $_ := set $webhook "members" (printf "%s-members:8080" (include "feedsink.fullname" .)) -}}
{{- end -}}
{{- if not (hasKey $kafka "instanceId") -}}{{- $_ := set $kafka "instanceId" "${POD_NAME}" -}}{{- end -}}
{{- $_ := set $admin "listen" ":8080" -}}
{{- $hosts := $admin.hosts | default list -}}
{{- range $suffix := list "" (printf ".%s" .Release.Namespace) (printf ".%s.svc" .Release.Namespace) (printf ".%s.svc.cluster.local" .Release.Namespace) -}}
{{- $hosts = append $hosts (printf "%s%s" (include "feedsink.fullname" $) $suffix) -}}
{{- end -}}
{{- $_ := set $admin "hosts" (uniq $hosts) -}}
{{- range list (list $sasl "oauth" $oauth) (list $kafka "sasl" $sasl) (list $admin "webhook" $webhook) (list $config "schemaRegistry" $registry) (list $config "receipts" $receipts) (list $config "admin" $admin) -}}
{{- if last . -}}{{- $_ := set (first .) (index . 1) (last .) -}}{{- end -}}
{{- end -}}
{{- $_ := set $config "log" (merge ($config.log | default dict) (dict "format" "json")) -}}
{{- $_ := set $config "spool" (dict "dir" "/var/lib/feedsink" "maxBytes" (printf "%vGiB" .Values.spool.gibibytes)) -}}
{{ toYaml $config }}
{{- end -}}

{{/*
The lanes that the mappings use, as JSON: those of their routes, of which auto is one of
batch, and those that other keys send some events to. feedsink says the same of itself.
*/}}
{{- define "feedsink.lanes" -}}
{{- $lanes := list -}}
{{- range .Values.config.mappings -}}
{{- $own := list -}}
{{- range .routes -}}
{{- if has .lane (list "immediate") -}}{{- $own = append $own "immediate" -}}{{- end -}}
{{- if has .lane (list "batch" "auto") -}}{{- $own = append $own "batch" -}}{{- end -}}
{{- end -}}
{{- $imports := .imports | default dict -}}
{{- if and (has "immediate" $own) (not .customTable) (or $imports.patch $imports.merge $imports.create $imports.delete) -}}
{{- $own = append $own "batch" -}}
{{- end -}}
{{- range $imports.columns -}}
{{- if and (has "batch" $own) (kindIs "map" .) -}}
{{- if has "immediate" (list .absent .null) -}}{{- $own = append $own "immediate" -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- $lanes = concat $lanes $own -}}
{{- end -}}
{{ $lanes | uniq | sortAlpha | toJson }}
{{- end -}}

{{/* What of the configuration needs a restart, and which lanes it uses. */}}
{{- define "feedsink.fixed" -}}
{{- $config := include "feedsink.config" . | fromYaml -}}
{{ pick $config "kafka" "admin" "memory" "tracing" | toJson }} {{ dig "dir" "" $config.spool }} {{ dig "timeout" "" $config.service }} {{ $config.log.format }} {{ include "feedsink.lanes" . }}
{{- end -}}

{{/* Refuses values that can only lead to pods that do not start. */}}
{{- define "feedsink.check" -}}
{{- $lanes := include "feedsink.deployments" . | fromJsonArray -}}
{{- if not .Values.existingConfigMap -}}
{{- $ways := dict
  "immediate" "a route or by absent: immediate or null: immediate of a column"
  "batch" "a route to batch or auto, or by imports.patch, merge, create or delete of a profile table"
-}}
{{- range $lane := list "immediate" "batch" -}}
{{- $used := include "feedsink.lanes" $ | fromJsonArray | has $lane -}}
{{- if and (has $lane $lanes) (not $used) -}}
{{- fail (printf "%s.enabled: no mapping uses the %s lane, so that its pods would end at once: set it to false" $lane $lane) -}}
{{- end -}}
{{- if and $used (not (has $lane $lanes)) (not (has "all" $lanes)) -}}
{{- fail (printf "%s.enabled: the mappings use the %s lane, by %s; its events would not be written: set it to true, or install a second release for it with existingConfigMap" $lane $lane (index $ways $lane)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- range $lane := $lanes -}}
{{- $own := index $.Values $lane -}}
{{- $limit := include "feedsink.mebibytes" (dig "limits" "memory" "" ($own.resources | default dict)) | int -}}
{{- $heap := ternary $limit (include "feedsink.mebibytes" $own.goMemLimit | int) (eq $own.goMemLimit "off") -}}
{{- $needed := ternary 0 (include "feedsink.memory" (list $ $lane) | int) (not (empty $.Values.existingConfigMap)) -}}
{{- if and (gt $needed $heap) (or (ne $own.goMemLimit "off") (gt $limit 0)) -}}
{{- fail (printf "%s.goMemLimit: is %d MiB, and config.memory and the mappings' files need %d MiB: raise it and resources.limits.memory, or lower config.memory" $lane $heap $needed) -}}
{{- end -}}
{{- if and (ne $own.goMemLimit "off") (gt $limit 0) (ge $heap $limit) -}}
{{- fail (printf "%s.goMemLimit: must be below resources.limits.memory: a tenth or more is not the heap's" $lane) -}}
{{- end -}}
{{- end -}}
{{- if not .Values.existingConfigMap -}}
{{- $needed := include "feedsink.seconds" (dig "timeout" "30s" .Values.config.service) | int | add 5 -}}
{{- if lt (int .Values.terminationGracePeriodSeconds) (int $needed) -}}
{{- fail (printf "terminationGracePeriodSeconds: is %v, and stopping waits %d s for the calls under way, config.service.timeout and 5 s: set it to config.service.timeout and 30 s, so that the last commit has time too" .Values.terminationGracePeriodSeconds $needed) -}}
{{- end -}}
{{- end -}}
{{- if and (eq .Values.lanes "together") (ne .Values.immediate.autoscaling.kind "none") -}}
{{- fail (printf "immediate.autoscaling.kind: %s scales the Deployment of the immediate lane, and with lanes: together there is none: choose none, or lanes: separate" .Values.immediate.autoscaling.kind) -}}
{{- end -}}
{{- if eq .Values.spool.volume "existingClaim" -}}
{{- if not .Values.spool.existingClaim -}}{{- fail "spool.existingClaim: is required with spool.volume: existingClaim" -}}{{- end -}}
{{- range $lanes -}}
{{- if and (ne . "immediate") (gt (int (index $.Values .).replicas) 1) -}}
{{- fail (printf "%s.replicas: must be 1 with spool.volume: existingClaim, since each member needs a spool of its own: choose ephemeral" .) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- if and .Values.webhook.ingress.enabled (not .Values.secrets.webhook.name) (not .Values.existingConfigMap) -}}
{{- fail "webhook.ingress.enabled: without secrets.webhook.name every call would be answered with 403" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled (include "feedsink.protected" .) (not .Values.secrets.adminToken.name) (not .Values.serviceMonitor.endpoint.authorization) -}}
{{- fail "serviceMonitor.enabled: with config.admin.protectReads Prometheus needs the token: name its Secret in secrets.adminToken, or set serviceMonitor.endpoint.authorization" -}}
{{- end -}}
{{- end -}}

{{/* A size as Kubernetes, Go and feedsink write it, in MiB; 0 if it is none. */}}
{{- define "feedsink.mebibytes" -}}
{{- $number := regexFind "^[0-9]+([.][0-9]+)?" (toString .) -}}
{{- $unit := toString . | trimPrefix $number | trimSuffix "B" -}}
{{- $mebi := dict "" 0.00000095367431640625 "Ki" 0.0009765625 "Mi" 1.0 "Gi" 1024.0 "Ti" 1048576.0 "k" 0.00095367431640625 "M" 0.95367431640625 "G" 953.67431640625 "T" 953674.31640625 -}}
{{ mulf (float64 $number) (get $mebi $unit | default 0.0) | floor | int }}
{{- end -}}

{{/* A duration as Go writes it, in seconds; 0 if it is none that the chart knows, such as a variable. */}}
{{- define "feedsink.seconds" -}}
{{- $seconds := 0.0 -}}
{{- if regexMatch "^([0-9.]+(h|m|s|ms))+$" (toString .) -}}
{{- range regexFindAll "[0-9.]+[hms]+" (toString .) -1 -}}
{{- $number := regexFind "^[0-9.]+" . -}}
{{- $seconds = addf $seconds (mulf (float64 $number) (get (dict "h" 3600.0 "m" 60.0 "s" 1.0 "ms" 0.001) (trimPrefix $number .))) -}}
{{- end -}}
{{- end -}}
{{ ceil $seconds | int }}
{{- end -}}

{{/* The MiB that a pod needs: (list $ LANE). deploy/sizing.md explains it. */}}
{{- define "feedsink.memory" -}}
{{- $config := (first .).Values.config -}}
{{- $lane := last . -}}
{{- $pending := include "feedsink.mebibytes" (dig "memory" "pending" "64MiB" $config) | int -}}
{{- $fetched := include "feedsink.mebibytes" (dig "memory" "fetched" "32MiB" $config) | int -}}
{{- $needed := add 64 $pending $fetched -}}
{{- if eq $lane "all" -}}{{- $needed = add $needed $pending -}}{{- end -}}
{{- if ne $lane "batch" -}}
{{- $skips := false -}}
{{- range $config.mappings -}}{{- if .unchanged -}}{{- $skips = true -}}{{- end -}}{{- end -}}
{{- if $skips -}}{{- $needed = add $needed (include "feedsink.mebibytes" (dig "memory" "unchanged" "32MiB" $config) | int) -}}{{- end -}}
{{- end -}}
{{- if ne $lane "immediate" -}}
{{- range $config.mappings -}}
{{- if .imports -}}
{{- $rows := coalesce (dig "imports" "maxFile" "rows" 0 . | int) (dig "imports" "roll" "rows" 0 . | int) 500000 -}}
{{- $needed = add $needed 4 (div $rows 524288) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ $needed }}
{{- end -}}
