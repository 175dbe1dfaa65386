{{- /* condition appends the condition .type to .conditions unless the Pod has exactly it; its time stays while its status does. */ -}}
{{- define "condition" -}}
{{- $c := . -}}
{{- $old := dict -}}
{{- range $c.pod.status.conditions }}{{ if eq .type $c.type }}{{ $old = . }}{{ end }}{{ end -}}
{{- $same := and (eq (get $old "status") $c.status) (eq (get $old "reason") $c.reason) (eq (get $old "message") $c.message) -}}
{{- $seen := eq (print $c.pod.status.observedGeneration) (print $c.pod.metadata.generation) -}}
{{- if not (and $same $seen) -}}
{{- $since := ternary (get $old "lastTransitionTime") $c.now (eq (get $old "status") $c.status) -}}
{{- $new := dict "type" $c.type "status" $c.status "lastTransitionTime" $since "observedGeneration" $c.pod.metadata.generation -}}
{{- $_ := set $new "reason" (ternary $c.reason nil (ne $c.reason "")) -}}
{{- $_ := set $new "message" (ternary $c.message nil (ne $c.message "")) -}}
{{- $_ := set $c "conditions" (append $c.conditions $new) -}}
{{- end -}}
{{- end -}}
