{{- define "kruise.externalCerts" -}}
{{- range splitList "," .Values.featureGates }}{{ if eq (trim .) "EnableExternalCerts=true" }}yes{{ end }}{{ end }}
{{- end }}

{{- /* Values that do not go together. */}}
{{- define "kruise.check" -}}
{{- if and .Values.externalCerts.annotations (not (include "kruise.externalCerts" .)) }}
{{- fail "externalCerts.annotations: nobody would need them; add EnableExternalCerts=true to featureGates" }}
{{- end }}
{{- $m := .Values.manager }}
{{- $ports := list (int $m.webhook.port) (int $m.metrics.port) (int $m.healthProbe.port) }}
{{- if lt (len (uniq $ports)) (len $ports) }}
{{- fail (printf "manager.webhook.port, manager.metrics.port and manager.healthProbe.port are %v: they must differ" $ports) }}
{{- end }}
{{- end }}

{{- /* Adds annotations to an object: list of object, annotations. */}}
{{- define "kruise.annotate" -}}
{{- $object := index . 0 }}{{ $annotations := index . 1 }}
{{- if $annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) $annotations ($object.metadata.annotations | default dict)) }}
{{- end }}
{{- end }}
