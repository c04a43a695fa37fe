{{/* A pod of one lane: (list $ LANE). */}}
{{- define "feedsink.pod" -}}
{{- $ := first . -}}
{{- $lane := last . -}}
{{- $own := index $.Values $lane -}}
{{- $spool := ne $lane "immediate" -}}
{{- $scheme := ternary ", scheme: HTTPS" "" (eq (include "feedsink.scheme" $) "HTTPS") -}}
serviceAccountName: {{ include "feedsink.serviceAccount" $ }}
automountServiceAccountToken: false
enableServiceLinks: false
terminationGracePeriodSeconds: {{ $.Values.terminationGracePeriodSeconds }}
{{- include "feedsink.podSecurity" $ }}
{{- with $.Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with $.Values.priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
containers:
  - name: feedsink
    image: {{ include "feedsink.image" $ | quote }}
    imagePullPolicy: {{ $.Values.image.pullPolicy }}
    args:
      - run
      - --config=/etc/feedsink/feedsink.yaml
      - --lane={{ $lane }}
      {{- with $.Values.logFormat | default (ternary "json" "" (not (empty $.Values.existingConfigMap))) }}
      - --log-format={{ . }}
      {{- end }}
      {{- with $own.logLevel }}
      - --log-level={{ . }}
      {{- end }}
      {{- if $.Values.reload.watch }}
      - --watch
      {{- end }}
    env:
      - name: GOMEMLIMIT
        value: {{ $own.goMemLimit | quote }}
      {{- include "feedsink.podName" $ | nindent 6 }}
      {{- with $.Values.extraEnv }}
      {{- toYaml . | nindent 6 }}
      {{- end }}
    ports:
      - name: http
        containerPort: 8080
    livenessProbe:
      httpGet: {path: /livez, port: http{{ $scheme }}}
      periodSeconds: 10
      timeoutSeconds: 5
      failureThreshold: 6
    readinessProbe:
      httpGet: {path: /readyz, port: http{{ $scheme }}}
      periodSeconds: 5
      timeoutSeconds: 5
      failureThreshold: 3
    {{- with $own.resources }}
    resources:
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- include "feedsink.containerSecurity" $ | nindent 4 }}
    volumeMounts:
      {{- include "feedsink.mounts" $ | nindent 6 }}
      {{- if $spool }}
      - name: spool
        mountPath: /var/lib/feedsink
      {{- end }}
volumes:
  {{- include "feedsink.volumes" $ | nindent 2 }}
  {{- if $spool }}
  {{- include "feedsink.spool" $ | nindent 2 }}
  {{- end }}
{{- with $.Values.nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with $.Values.affinity }}
affinity:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- if $.Values.topologySpread.enabled }}
topologySpreadConstraints:
  {{- range list "kubernetes.io/hostname" "topology.kubernetes.io/zone" }}
  - maxSkew: 1
    topologyKey: {{ . }}
    whenUnsatisfiable: ScheduleAnyway
    labelSelector:
      matchLabels:
        {{- include "feedsink.selector" $ | nindent 8 }}
        app.kubernetes.io/component: {{ $lane }}
    matchLabelKeys: [pod-template-hash]
  {{- end }}
{{- end }}
{{- end -}}

{{/* For kafka.instanceId. */}}
{{- define "feedsink.podName" -}}
- name: POD_NAME
  valueFrom:
    fieldRef: {fieldPath: metadata.name}
{{- end -}}

{{- define "feedsink.podSecurity" }}
securityContext:
  runAsNonRoot: true
  {{- range $name, $id := .Values.podSecurityContext }}
  {{- if not (kindIs "invalid" $id) }}
  {{ $name }}: {{ int64 $id }}
  {{- end }}
  {{- end }}
  {{- if .Values.podSecurityContext.fsGroup }}
  fsGroupChangePolicy: OnRootMismatch
  {{- end }}
  seccompProfile:
    type: RuntimeDefault
{{- end -}}

{{- define "feedsink.containerSecurity" -}}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  privileged: false
  capabilities:
    drop: [ALL]
{{- end -}}

{{- define "feedsink.mounts" -}}
- name: config
  mountPath: /etc/feedsink
  readOnly: true
{{- if include "feedsink.secrets" . | fromJsonArray }}
- name: secrets
  mountPath: /run/secrets/feedsink
  readOnly: true
{{- end }}
{{- with .Values.extraVolumeMounts }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{- define "feedsink.volumes" -}}
- name: config
  configMap:
    name: {{ include "feedsink.configMap" . }}
{{- with include "feedsink.secrets" . | fromJsonArray }}
- name: secrets
  projected:
    # Read by the group that fsGroup gives, and by no other.
    defaultMode: {{ ternary "0440" "0444" (not (kindIs "invalid" $.Values.podSecurityContext.fsGroup)) }}
    sources:
      {{- toYaml . | nindent 6 }}
{{- end }}
{{- with .Values.extraVolumes }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* A little larger than spool.maxBytes, so that feedsink pauses before the kubelet evicts. */}}
{{- define "feedsink.spool" -}}
{{- $size := printf "%dGi" (add 1 (div (mul 11 (int .Values.spool.gibibytes)) 10)) -}}
- name: spool
{{- if eq .Values.spool.volume "emptyDir" }}
  emptyDir:
    sizeLimit: {{ $size }}
{{- else if eq .Values.spool.volume "ephemeral" }}
  ephemeral:
    volumeClaimTemplate:
      metadata:
        labels:
          {{- include "feedsink.selector" . | nindent 10 }}
      spec:
        accessModes: [ReadWriteOnce]
        {{- with .Values.spool.storageClassName }}
        storageClassName: {{ . }}
        {{- end }}
        resources:
          requests:
            storage: {{ $size }}
{{- else }}
  persistentVolumeClaim:
    claimName: {{ .Values.spool.existingClaim }}
{{- end }}
{{- end -}}
