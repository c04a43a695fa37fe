{{/*
feedsink.yaml: config, and what the chart knows itself. What config says about the
same keys is overruled where it cannot be true in the pod, and kept elsewhere.
*/}}
{{- define "feedsink.config" -}}
{{- $dir := "/run/secrets/feedsink" -}}
{{- $config := deepCopy .Values.config -}}
{{- $secrets := .Values.secrets -}}
{{- $service := $config.service -}}
{{- if and $secrets.apiKey.name (not $service.apiKey) -}}
{{- $_ := set $service "apiKeyFile" (printf "%s/api-key" $dir) -}}
{{- end -}}
{{- if $secrets.kafkaPassword.name -}}
{{- $sasl := $config.kafka.sasl | default dict -}}
{{- if eq ($sasl.mechanism | default "") "OAUTHBEARER" -}}
{{- $oauth := $sasl.oauth | default dict -}}
{{- $_ := set $oauth "clientSecretFile" (printf "%s/kafka-password" $dir) -}}
{{- $_ := set $sasl "oauth" $oauth -}}
{{- else -}}
{{- $_ := set $sasl "passwordFile" (printf "%s/kafka-password" $dir) -}}
{{- end -}}
{{- $_ := set $config.kafka "sasl" $sasl -}}
{{- end -}}
{{- with $secrets.kafkaTLS -}}
{{- if .name -}}
{{- $tls := dict "enabled" true -}}
{{- if .ca -}}{{- $_ := set $tls "caFile" (printf "%s/kafka-ca.crt" $dir) -}}{{- end -}}
{{- if .cert -}}{{- $_ := set $tls "certFile" (printf "%s/kafka.crt" $dir) -}}{{- end -}}
{{- if .key -}}{{- $_ := set $tls "keyFile" (printf "%s/kafka.key" $dir) -}}{{- end -}}
{{- $_ := set $config.kafka "tls" (merge $tls ($config.kafka.tls | default dict)) -}}
{{- end -}}
{{- end -}}
{{- with $secrets.serviceTLS -}}
{{- if .name -}}
{{- $tls := dict -}}
{{- if .ca -}}{{- $_ := set $tls "caFile" (printf "%s/service-ca.crt" $dir) -}}{{- end -}}
{{- if .cert -}}{{- $_ := set $tls "certFile" (printf "%s/service.crt" $dir) -}}{{- end -}}
{{- if .key -}}{{- $_ := set $tls "keyFile" (printf "%s/service.key" $dir) -}}{{- end -}}
{{- $_ := set $service "tls" (merge $tls ($service.tls | default dict)) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $config "spool" (dict "dir" "/var/lib/feedsink" "maxBytes" (printf "%vGiB" .Values.spool.gibibytes)) -}}
{{- $admin := $config.admin | default dict -}}
{{- $_ := set $admin "listen" ":8080" -}}
{{- if $secrets.webhook.name -}}
{{- $webhook := $admin.webhook | default dict -}}
{{- $_ := set $webhook "secretFile" (printf "%s/webhook-secret" $dir) -}}
{{- $lanes := include "feedsink.deployments" . | fromJsonArray -}}
{{- if or (has "batch" $lanes) (has "all" $lanes) -}}
{{- $_ := set $webhook "members" (printf "%s-members:8080" (include "feedsink.fullname" .)) -}}
{{- end -}}
{{- $_ := set $admin "webhook" $webhook -}}
{{- end -}}
{{- $_ := set $config "admin" $admin -}}
{{ toYaml $config }}
{{- end -}}

{{/* Refuses values that can only lead to pods that do not start. */}}
{{- define "feedsink.check" -}}
{{- $lanes := include "feedsink.deployments" . | fromJsonArray -}}
{{- if not .Values.existingConfigMap -}}
{{- range $lane := list "immediate" "batch" -}}
{{- $used := false -}}
{{- range $.Values.config.mappings -}}
{{- range .routes -}}{{- if eq .lane $lane -}}{{- $used = true -}}{{- end -}}{{- end -}}
{{- end -}}
{{- if and (has $lane $lanes) (not $used) -}}
{{- fail (printf "%s.enabled: no mapping has a route to the %s lane, so that its pods would end at once: set it to false" $lane $lane) -}}
{{- end -}}
{{- if and $used (not (has $lane $lanes)) (not (has "all" $lanes)) -}}
{{- fail (printf "%s.enabled: a mapping has a route to the %s lane, whose events nobody would write: set it to true, or install a second release for it with existingConfigMap" $lane $lane) -}}
{{- end -}}
{{- end -}}
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
{{- end -}}
