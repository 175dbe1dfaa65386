{{- /* Renders the end of a Pod: deleted, failed or completed. Input: the Pod. Output: a strategic merge patch in JSON. */ -}}
#include condition.tpl
{{- $pod := . -}}
{{- $now := now.UTC.Format "2006-01-02T15:04:05Z07:00" -}}
{{- $steer := $pod.metadata.annotations | default dict -}}
{{- $deleted := hasKey $pod.metadata "deletionTimestamp" -}}
{{- /* A server stops cleanly when told to; a task that is cut off has not done its work. */ -}}
{{- $failed := ternary (ne $pod.spec.restartPolicy "Always") (hasKey $steer "sim.workloadkit.io/fail") $deleted -}}
{{- if not $deleted -}}
{{- range $pod.status.containerStatuses -}}
{{- if ne (get (get .state "terminated" | default dict) "exitCode" | default 0 | print) "0" }}{{ $failed = true }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $exit := ternary (ternary 143 1 $deleted) 0 $failed -}}
{{- $status := dict "observedGeneration" $pod.metadata.generation "phase" (ternary "Failed" "Succeeded" $failed) -}}
{{- range $list := list "initContainerStatuses" "containerStatuses" "ephemeralContainerStatuses" -}}
{{- range index $pod.status $list -}}
{{- $s := omit . "" -}}
{{- if not (hasKey .state "terminated") -}}
{{- $since := get (get .state "running" | default dict) "startedAt" | default $now -}}
{{- $end := dict "exitCode" $exit "reason" (ternary "Error" "Completed" $failed) "startedAt" $since "finishedAt" $now -}}
{{- $_ := set $end "containerID" (get . "containerID") -}}
{{- $_ := set $s "state" (dict "terminated" $end) -}}
{{- $_ := set $s "ready" false }}{{ $_ := set $s "started" false -}}
{{- end -}}
{{- $_ := set $status $list (append (get $status $list | default list) $s) -}}
{{- end -}}
{{- end -}}
{{- $why := get $steer "sim.workloadkit.io/fail" -}}
{{- if and $failed (not $deleted) (not (has $why (list "" "true"))) }}{{ $_ := set $status "reason" $why }}{{ end -}}
{{- $out := dict "pod" $pod "now" $now "conditions" list "status" "False" "message" "" -}}
{{- $_ := set $out "reason" (ternary "PodFailed" "PodCompleted" $failed) -}}
{{- range list "ContainersReady" "Ready" -}}
{{- $_ := set $out "type" . -}}
{{- template "condition" $out -}}
{{- end -}}
{{- with $out.conditions }}{{ $_ := set $status "conditions" . }}{{ end -}}
{{- toJson (dict "metadata" (dict "resourceVersion" $pod.metadata.resourceVersion) "status" $status) -}}
