{{- define "postern.name" -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end }}

{{- define "postern.secret" -}}
{{- .Values.secret.name | default (include "postern.name" .) -}}
{{- end }}

{{- define "postern.image" -}}
{{- .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}{{ with .Values.image.digest }}@{{ . }}{{ end -}}
{{- end }}

{{- define "postern.labels" -}}
app.kubernetes.io/name: {{ include "postern.name" . }}
app.kubernetes.io/part-of: postern
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version }}
{{- end }}

{{- define "postern.selector" -}}
app.kubernetes.io/name: {{ include "postern.name" . }}
app.kubernetes.io/component: server
{{- end }}

{{- /* Of every pod: no root, no token of the cluster, and no variables like POSTERN_PORT, which are no settings of ours. */ -}}
{{- define "postern.pod" -}}
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  seccompProfile:
    type: RuntimeDefault
{{- with .Values.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
{{- with .Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "postern.container" -}}
image: {{ include "postern.image" . }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext: {{- include "postern.confined" . | nindent 2 }}
{{- end }}

{{- define "postern.confined" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities:
  drop: [ALL]
{{- end }}

{{- define "postern.mounts" -}}
- { name: data, mountPath: /var/lib/postern }
- { name: tmp, mountPath: /tmp }
{{- end }}

{{- define "postern.volumes" -}}
- name: data
  emptyDir: { sizeLimit: 64Mi }
- name: tmp
  emptyDir: { medium: Memory, sizeLimit: 64Mi }
{{- end }}

{{- /* `key` is that of the database's address. */ -}}
{{- define "postern.database" -}}
- name: POSTERN_DATABASE_URL
  valueFrom:
    secretKeyRef: { name: {{ include "postern.secret" .root }}, key: {{ .key }} }
- name: POSTERN_ENCRYPTION_KEYS
  valueFrom:
    secretKeyRef: { name: {{ include "postern.secret" .root }}, key: encryption-keys }
{{- end }}
