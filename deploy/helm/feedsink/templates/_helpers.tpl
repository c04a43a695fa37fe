{{- define "feedsink.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{ .Values.fullnameOverride | trunc 50 | trimSuffix "-" }}
{{- else -}}
{{- $name := default .Chart.Name .Values.nameOverride -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end -}}

{{/* What selects every pod of the release. */}}
{{- define "feedsink.selector" -}}
app.kubernetes.io/name: {{ default .Chart.Name .Values.nameOverride | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end -}}

{{- define "feedsink.labels" -}}
{{ include "feedsink.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name (.Chart.Version | replace "+" "_") }}
{{- end -}}

{{- define "feedsink.serviceAccount" -}}
{{- if .Values.serviceAccount.create -}}
{{ default (include "feedsink.fullname" .) .Values.serviceAccount.name }}
{{- else -}}
{{ default "default" .Values.serviceAccount.name }}
{{- end -}}
{{- end -}}

{{- define "feedsink.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}{{ .repository }}@{{ .digest }}{{- else -}}{{ .repository }}:{{ .tag | default $.Chart.AppVersion }}{{- end -}}
{{- end -}}
{{- end -}}

{{/* The Deployments as JSON: a list of lanes, which are also their names' endings. */}}
{{- define "feedsink.deployments" -}}
{{- $lanes := list "all" -}}
{{- if eq .Values.lanes "separate" -}}
{{- $lanes = list -}}
{{- range $lane := list "immediate" "batch" -}}
{{- if (index $.Values $lane).enabled -}}{{- $lanes = append $lanes $lane -}}{{- end -}}
{{- end -}}
{{- end -}}
{{- if not $lanes -}}{{ fail "immediate.enabled, batch.enabled: at least one of them must be true, or lanes: together" }}{{- end -}}
{{ toJson $lanes }}
{{- end -}}

{{- define "feedsink.configMap" -}}
{{ default (include "feedsink.fullname" .) .Values.existingConfigMap }}
{{- end -}}

{{/* The Secrets that are mounted, each with its items, as JSON. */}}
{{- define "feedsink.secrets" -}}
{{- $sources := list -}}
{{- with .Values.secrets -}}
{{- range list
  (list .apiKey "api-key")
  (list .kafkaPassword "kafka-password")
  (list .kafkaToken "kafka-token")
  (list .registryPassword "registry-password")
  (list .receiptsKey "receipts-key")
  (list .adminToken "admin-token")
  (list .webhook "webhook-secret")
-}}
{{- $secret := first . -}}
{{- if $secret.name -}}
{{- $item := dict "key" $secret.key "path" (last .) -}}
{{- $sources = append $sources (dict "secret" (dict "name" $secret.name "items" (list $item))) -}}
{{- end -}}
{{- end -}}
{{- range list
  (list .kafkaTLS "kafka")
  (list .oauthTLS "oauth")
  (list .registryTLS "registry")
  (list .serviceTLS "service")
  (list (omit .adminTLS "ca") "admin")
-}}
{{- $tls := first . -}}
{{- $path := last . -}}
{{- if $tls.name -}}
{{- $items := list -}}
{{- if $tls.ca -}}{{- $items = append $items (dict "key" $tls.ca "path" (printf "%s-ca.crt" $path)) -}}{{- end -}}
{{- if $tls.cert -}}{{- $items = append $items (dict "key" $tls.cert "path" (printf "%s.crt" $path)) -}}{{- end -}}
{{- if $tls.key -}}{{- $items = append $items (dict "key" $tls.key "path" (printf "%s.key" $path)) -}}{{- end -}}
{{- $sources = append $sources (dict "secret" (dict "name" $tls.name "items" $items)) -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{ toJson $sources }}
{{- end -}}

{{/* How the admin server is reached: HTTP or HTTPS. */}}
{{- define "feedsink.scheme" -}}
{{- $own := and (not .Values.existingConfigMap) ((.Values.config.admin | default dict).tls | default dict).certFile -}}
{{- ternary "HTTPS" "HTTP" (or (not (empty .Values.secrets.adminTLS.name)) (not (empty $own))) -}}
{{- end -}}

{{/* Not empty if reading the metrics wants the token. */}}
{{- define "feedsink.protected" -}}
{{- if and (not .Values.existingConfigMap) (.Values.config.admin | default dict).protectReads -}}yes{{- end -}}
{{- end -}}

{{/* The port that an address names, or that its scheme stands for; empty where a variable may have it. */}}
{{- define "feedsink.port" -}}
{{- $authority := regexReplaceAllLiteral "[$][{][^}]*[}]" . "*" | regexFind "^([a-z]+://)?[^/?#]*" -}}
{{- $host := regexReplaceAllLiteral "^.*@" $authority "" -}}
{{- $usual := get (dict "http" "80" "https" "443") (regexFind "^[a-z]+" $authority) -}}
{{- regexFind ":[0-9]+$" $host | trimPrefix ":" | default (ternary "" $usual (contains "*" $host)) -}}
{{- end -}}
