{{- define "edgewise.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end }}

{{/* Called with (dict "root" $ "part" "operator") */}}
{{- define "edgewise.selector" -}}
app.kubernetes.io/name: edgewise
app.kubernetes.io/component: {{ .part }}
{{- end }}

{{- define "edgewise.labels" -}}
{{ include "edgewise.selector" . }}
app.kubernetes.io/instance: {{ .root.Release.Name }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end }}

{{/* What no container of ours needs. */}}
{{- define "edgewise.restricted" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: { drop: [ALL] }
{{- end }}

{{- define "edgewise.podRestricted" -}}
runAsNonRoot: true
runAsUser: 65534
runAsGroup: 65534
fsGroup: 65534
seccompProfile: { type: RuntimeDefault }
{{- end }}

{{/* Replicas on different nodes where there are several. */}}
{{- define "edgewise.spread" -}}
- maxSkew: 1
  topologyKey: kubernetes.io/hostname
  whenUnsatisfiable: ScheduleAnyway
  labelSelector:
    matchLabels:
      {{- include "edgewise.selector" . | nindent 6 }}
{{- end }}

{{- define "edgewise.placement" -}}
{{- with .nodeSelector }}
nodeSelector:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .tolerations }}
tolerations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .priorityClassName }}
priorityClassName: {{ . }}
{{- end }}
{{- end }}

{{/* The ports that seats may have, as a list. */}}
{{- define "edgewise.checkValues" -}}
{{- $g := .Values.gateway }}
{{- if gt (int $g.ports.first) (int $g.ports.last) }}
{{- fail "gateway.ports.first must not be greater than gateway.ports.last" }}
{{- end }}
{{- if gt (int $g.ports.last) 32767 }}
{{- fail "gateway.ports.last must be below 32768: from there on the system takes ports for outgoing connections" }}
{{- end }}
{{- $count := add1 (sub (int $g.ports.last) (int $g.ports.first)) }}
{{- if and (gt (int $count) 100) (not $g.hostNetwork) }}
{{- fail "gateway.ports has more than 100 ports: a Service has to name each of them, so use fewer, or gateway.hostNetwork" }}
{{- end }}
{{- if and $g.hostPort $g.hostNetwork }}
{{- fail "choose one of gateway.hostPort and gateway.hostNetwork" }}
{{- end }}
{{- if and $g.enabled $g.httpRoute.enabled (not $g.httpRoute.parentRefs) }}
{{- fail "gateway.httpRoute.parentRefs must name the Gateway that leads to ours" }}
{{- end }}
{{- end }}
