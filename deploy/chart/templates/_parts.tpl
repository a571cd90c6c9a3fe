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
{{- /* What the operator publishes is what has to be open on the nodes. */}}
{{- $named := not (or $g.hostPort $g.hostNetwork) }}
{{- if and $g.enabled (eq $g.service.type "NodePort") $named (lt (int $g.ports.first) (int $g.service.firstNodePort)) }}
{{- fail "with gateway.service.type NodePort, clients come to the ports of gateway.ports on the nodes themselves, so they have to lie in the cluster's range of NodePorts: --set gateway.ports.first=30000,gateway.ports.last=30019" }}
{{- end }}
{{- if and $g.enabled (eq $g.service.type "NodePort") $named $g.service.separateUdp }}
{{- fail "gateway.service.separateUdp does not go with type NodePort: a port of the nodes belongs to one Service, for TCP and UDP alike" }}
{{- end }}
{{- if and $g.hostPort $g.hostNetwork }}
{{- fail "choose one of gateway.hostPort and gateway.hostNetwork" }}
{{- end }}
{{- if and $g.enabled $g.httpRoute.enabled (not $g.httpRoute.parentRefs) }}
{{- fail "gateway.httpRoute.parentRefs must name the Gateway that leads to ours" }}
{{- end }}
{{- end }}

{{/* Helm 3 tells the ports of a Service apart by number alone: where TCP and UDP have the same one,
its patch of a change loses one of them. Called with (dict "root" $ "mixed" true). */}}
{{- define "edgewise.checkUpgrade" -}}
{{- $ports := .root.Values.gateway.ports }}
{{- $there := lookup "v1" "Service" .root.Release.Namespace "edgewise-gateway" }}
{{- if and $there (hasPrefix "v3" .root.Capabilities.HelmVersion.Version) }}
{{- $protocols := dict }}
{{- range $port := $there.spec.ports }}
{{- $number := toString (int $port.port) }}
{{- $_ := set $protocols $number (append (get $protocols $number | default list) $port.protocol) }}
{{- end }}
{{- range $port := untilStep (int $ports.first) (int (add1 $ports.last)) 1 }}
{{- $now := get $protocols (toString $port) | default list | len }}
{{- $wanted := ternary 2 1 $.mixed }}
{{- if and (ne $now $wanted) (eq 2 (max $now $wanted)) }}
{{- fail (printf "Helm 3 cannot change a Service that has TCP and UDP at the same port, and would leave clients without one of them: delete it first with `kubectl -n %s delete service edgewise-gateway`, then upgrade at once (or set gateway.service.separateUdp from the first installation on)" $.root.Release.Namespace) }}
{{- end }}
{{- end }}
{{- end }}
{{- end }}

{{/* For rights that exist only while the chart is being removed. */}}
{{- define "edgewise.beforeRemoval" -}}
helm.sh/hook: pre-delete
helm.sh/hook-weight: "-1"
helm.sh/hook-delete-policy: before-hook-creation,hook-succeeded
{{- end }}
