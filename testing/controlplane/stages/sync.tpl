{{- /* Renders what a kubelet reports for a Pod that runs. Input: the Pod. Output: a strategic merge patch in JSON.
       A template returns values by setting keys of its input. */ -}}
#include condition.tpl
{{- /* named sets .yes if the annotation .key, names with commas or "*", names the container .name. */ -}}
{{- define "named" -}}
{{- $v := get (.pod.metadata.annotations | default dict) .key -}}
{{- $_ := set . "yes" (or (eq $v "*") (has .name (splitList "," (nospace $v)))) -}}
{{- end -}}
{{- /* image sets .image and .imageID to what a runtime reports of container .spec: a tag, here the one that annotation image-alias
       names in place of it, or the digest that was asked for and the ID of its configuration; and .broken if annotation
       broken-image names it. */ -}}
{{- define "image" -}}
{{- $in := . -}}
{{- $asked := .spec.image -}}
{{- $steer := .pod.metadata.annotations | default dict -}}
{{- $broken := get $steer "sim.workloadkit.io/broken-image" -}}
{{- $_ := set $in "broken" (or (eq $broken "*") (has $asked (splitList "," (nospace $broken)))) -}}
{{- if contains "@" $asked -}}
{{- $_ := set $in "image" (print "sha256:" (sha256sum (last (splitList "@" $asked)))) -}}
{{- $_ := set $in "imageID" (regexReplaceAll "(:[^:/@]*)?@" $asked "@") -}}
{{- else -}}
{{- $tag := $asked -}}
{{- range splitList "," (nospace (get $steer "sim.workloadkit.io/image-alias")) -}}
{{- if hasPrefix (print $asked "=") . }}{{ $tag = trimPrefix (print $asked "=") . }}{{ end -}}
{{- end -}}
{{- $_ := set $in "image" $tag -}}
{{- $_ := set $in "imageID" (print "sim@sha256:" (sha256sum $tag)) -}}
{{- end -}}
{{- end -}}
{{- /* id sets .id to the ID of the container that is start number .restarts of .spec: half of it says which container of which
       Pod it is, and half what it was asked to run, which cannot be told from what is reported. */ -}}
{{- define "id" -}}
{{- $which := sha256sum (print .pod.metadata.uid "/" .spec.name "/" .restarts) | trunc 32 -}}
{{- $_ := set . "id" (print "sim://" $which (sha256sum .spec.image | trunc 32)) -}}
{{- end -}}
{{- /* stopped sets .yes if annotation stopped names the instance .old of container .spec. */ -}}
{{- define "stopped" -}}
{{- $all := fromJson (get (.pod.metadata.annotations | default dict) "sim.workloadkit.io/stopped" | default "{}") -}}
{{- $id := get .old "containerID" -}}
{{- $_ := set . "yes" false -}}
{{- if and (kindIs "map" $all) $id }}{{ $_ := set . "yes" (eq (get $all .spec.name | print) $id) }}{{ end -}}
{{- end -}}
{{- /* program reads the program of container .spec, as far as a few are known: sleep, exit, true, false, echo, env, ls, and sh -c of
       these with ";" and "&&". It sets .ends, .seconds until then, and .code. An unknown program does not start, and a shell does
       not find it. A container without a program of its own runs for ever. */ -}}
{{- define "program" -}}
{{- $in := . -}}
{{- $argv := concat (get .spec "command" | default list) (get .spec "args" | default list) -}}
{{- $_ := set $in "ends" (ne (len $argv) 0) }}{{ $_ := set $in "seconds" 0.0 }}{{ $_ := set $in "code" 0 -}}
{{- if $argv -}}
{{- $shell := and (has (base (first $argv)) (list "sh" "bash")) (gt (len $argv) 2) -}}
{{- $script := join " " $argv }}{{ if $shell }}{{ $script = index $argv 2 }}{{ end -}}
{{- $over := false -}}
{{- range regexSplit "[;\n]" $script -1 -}}
{{- $failed := false -}}
{{- range splitList "&&" . -}}
{{- $words := compact (regexSplit "\\s+" . -1) -}}
{{- if and $words (not $failed) (not $over) -}}
{{- $name := base (first $words) -}}
{{- $arg := trimSuffix "s" (index (append $words "") 1) -}}
{{- $_ := set $in "code" 0 -}}
{{- if eq $name "sleep" -}}
{{- if eq $arg "infinity" }}{{ $_ := set $in "ends" false }}{{ $over = true }}{{ end -}}
{{- if regexMatch "^[0-9.]+$" $arg }}{{ $_ := set $in "seconds" (addf $in.seconds (float64 $arg)) }}{{ end -}}
{{- else if eq $name "exit" -}}
{{- $over = true }}{{ $_ := set $in "code" (int $arg) -}}
{{- else if eq $name "false" -}}
{{- $_ := set $in "code" 1 -}}
{{- else if not (has $name (list "true" "echo" "env" "ls")) -}}
{{- $_ := set $in "code" (ternary 127 128 $shell) -}}
{{- end -}}
{{- $failed = ne $in.code 0 -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* changed sets .yes if container .spec needs a restart: another image, or a resource whose resizePolicy asks for one. A
       container that these stages have not started is known by what is reported. */ -}}
{{- define "changed" -}}
{{- $in := . -}}
{{- $has := get .old "containerID" -}}
{{- $want := dict "pod" .pod "spec" .spec "restarts" (int64 (get .old "restartCount" | default 0 | print)) -}}
{{- template "id" $want -}}
{{- if hasPrefix (trunc 38 $want.id) $has -}}
{{- $_ := set $in "yes" (ne $has $want.id) -}}
{{- else -}}
{{- $_ := set $in "yes" (and (hasKey .old "image") (ne (get .old "image") .spec.image)) -}}
{{- end -}}
{{- $have := get .old "resources" | default dict -}}{{- $want := get .spec "resources" | default dict -}}
{{- if get (get .old "state" | default dict) "running" -}}
{{- range .spec.resizePolicy -}}
{{- if eq .restartPolicy "RestartContainer" -}}
{{- $name := .resourceName -}}
{{- range list "requests" "limits" -}}
{{- if ne (get (get $have . | default dict) $name | print) (get (get $want . | default dict) $name | print) -}}
{{- $_ := set $in "yes" true -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- end -}}
{{- /* step sets .step to what happens to a container now: complete, wait, start, pause, restart, crash, pull (in vain), end, or
       nothing. Ephemeral containers, which have a .program, end for good, and so do .final ones. */ -}}
{{- define "step" -}}
{{- $state := get .old "state" | default dict -}}
{{- $waiting := get $state "waiting" | default dict -}}
{{- $pending := or (get $waiting "message") (get (get $state "terminated" | default dict) "message") "" -}}
{{- $step := "" -}}
{{- if .plain -}}
{{- if not $state }}{{ $step = "complete" }}{{ end -}}
{{- else if not $state -}}
{{- $step = ternary "wait" "start" (ne .delay "") -}}
{{- else if eq (get $waiting "reason") "ImagePullBackOff" -}}
{{- $step = ternary "start" "restart" (eq (get .old "containerID") "") -}}
{{- else if hasPrefix "starts at " $pending -}}
{{- if le (trimPrefix "starts at " $pending) .due }}{{ $step = ternary "restart" "start" (hasKey $state "terminated") }}{{ end -}}
{{- else if eq (get $waiting "reason") "CrashLoopBackOff" -}}
{{- if not .crash }}{{ $step = "restart" }}{{ end -}}
{{- else if and .program (or .stopped .programOver) -}}
{{- if hasKey $state "running" }}{{ $step = "end" }}{{ end -}}
{{- else if and .program (hasKey $state "terminated") -}}
{{- else if and .final (not .changed) (or .stopped (hasKey $state "terminated")) -}}
{{- if hasKey $state "running" }}{{ $step = "end" }}{{ end -}}
{{- else if or .changed .stopped -}}
{{- $step = ternary "pause" "restart" (ne .delay "") -}}
{{- else if .crash -}}
{{- $step = "crash" -}}
{{- end -}}
{{- if and .program (eq $step "start") (eq (get (.program | default dict) "code") 128) }}{{ $step = "end" }}{{ end -}}
{{- if and .broken (has $step (list "start" "wait" "restart" "pause")) }}{{ $step = "pull" }}{{ end -}}
{{- $_ := set . "step" $step -}}
{{- end -}}
{{- /* container sets .status, the status of container .spec, from .old, the one reported last. */ -}}
{{- define "container" -}}
{{- $in := . -}}{{- $c := .spec -}}{{- $old := .old -}}{{- $now := .now -}}{{- $step := .step -}}
{{- $run := get (get $old "state" | default dict) "running" | default dict -}}
{{- $ended := dict "exitCode" 0 "reason" "Completed" "startedAt" (get $run "startedAt" | default $now) "finishedAt" $now -}}
{{- $_ := set $ended "containerID" (get $old "containerID") -}}
{{- $message := print "starts at " ((now | dateModify (default "0s" .delay)).UTC.Format "2006-01-02T15:04:05.000000Z07:00") -}}
{{- $restarts := int64 (get $old "restartCount" | default 0 | print) -}}
{{- $s := omit $old "" -}}
{{- if eq $step "restart" -}}
{{- $restarts = add1 $restarts -}}
{{- $stopped := get (get $old "state") "terminated" -}}
{{- if $stopped }}{{ $_ := set $s "lastState" (dict "terminated" (omit $stopped "message")) -}}
{{- else if $run }}{{ $_ := set $s "lastState" (dict "terminated" $ended) }}{{ end -}}
{{- end -}}
{{- if has $step (list "complete" "start" "restart" "wait" "end") -}}
{{- $_ := set $s "name" $c.name -}}{{- $_ := set $s "image" $c.image -}}{{- $_ := set $s "imageID" "" -}}
{{- $_ := set $s "restartCount" $restarts -}}
{{- $_ := set $s "ready" (eq $step "complete") -}}{{- $_ := set $s "started" false -}}
{{- end -}}
{{- if has $step (list "complete" "start" "restart" "end") -}}
{{- $is := dict "pod" .pod "spec" $c "restarts" $restarts -}}{{- template "id" $is -}}
{{- $_ := set $s "image" .image -}}{{- $_ := set $s "imageID" .imageID -}}{{- $_ := set $s "containerID" $is.id -}}
{{- end -}}
{{- if eq $step "pull" -}}
{{- $stopped := get (get $old "state" | default dict) "terminated" -}}
{{- if $stopped }}{{ $_ := set $s "lastState" (dict "terminated" (omit $stopped "message")) -}}
{{- else if $run }}{{ $_ := set $s "lastState" (dict "terminated" $ended) }}{{ end -}}
{{- if not (get $s "containerID") -}}
{{- $_ := set $s "name" $c.name -}}{{- $_ := set $s "image" $c.image -}}{{- $_ := set $s "imageID" "" -}}{{- $_ := set $s "restartCount" 0 -}}
{{- end -}}
{{- $run = dict -}}
{{- $back := print "Back-off pulling image \"" $c.image "\"" -}}
{{- $_ := set $s "state" (dict "waiting" (dict "reason" "ImagePullBackOff" "message" $back)) -}}
{{- end -}}
{{- if eq $step "wait" -}}
{{- $_ := set $s "state" (dict "waiting" (dict "reason" "ContainerCreating" "message" $message)) -}}
{{- else if eq $step "complete" -}}
{{- $_ := set $s "state" (dict "terminated" (set $ended "containerID" $s.containerID)) -}}
{{- else if has $step (list "start" "restart") -}}
{{- $run = dict "startedAt" $now -}}
{{- $_ := set $s "state" (dict "running" $run) -}}
{{- else if eq $step "end" -}}
{{- $run = dict -}}
{{- $code := ternary 143 (int (get .program "code")) (and .stopped (not .programOver)) -}}
{{- $_ := set $ended "exitCode" $code -}}
{{- $_ := set $ended "reason" (get (dict "0" "Completed" "128" "StartError") (print $code) | default "Error") -}}
{{- $_ := set $s "state" (dict "terminated" (set $ended "containerID" $s.containerID)) -}}
{{- else if eq $step "pause" -}}
{{- $run = dict -}}
{{- $_ := set $s "state" (dict "terminated" (set $ended "message" $message)) -}}
{{- else if eq $step "crash" -}}
{{- $run = dict -}}
{{- $_ := set $s "lastState" (dict "terminated" (merge (dict "exitCode" 1 "reason" "Error") $ended)) -}}
{{- $back := print "back-off 10s restarting failed container=" $c.name " pod=" .pod.metadata.name "_" .pod.metadata.namespace -}}
{{- $_ := set $s "state" (dict "waiting" (dict "reason" "CrashLoopBackOff" "message" $back)) -}}
{{- end -}}
{{- if not .plain -}}
{{- $_ := set $s "started" (ne (len $run) 0) -}}
{{- $_ := set $s "ready" (and (ne (len $run) 0) (not .unready)) -}}
{{- if $run -}}
{{- $resources := get $c "resources" | default dict -}}
{{- $_ := set $s "resources" (pick $resources "limits" "requests") -}}
{{- $_ := unset $s "allocatedResources" -}}
{{- with get $resources "requests" }}{{ $_ := set $s "allocatedResources" . }}{{ end -}}
{{- end -}}
{{- end -}}
{{- $_ := set $in "status" $s -}}
{{- end -}}

{{- $pod := . -}}
{{- $now := now.UTC.Format "2006-01-02T15:04:05Z07:00" -}}
{{- $due := (now | dateModify "2ms").UTC.Format "2006-01-02T15:04:05.000000Z07:00" -}}
{{- $delay := get ($pod.metadata.annotations | default dict) "sim.workloadkit.io/start-delay" -}}
{{- if regexMatch "^[0-9]+$" $delay }}{{ $delay = print $delay "ms" }}{{ end -}}
{{- $status := dict "observedGeneration" $pod.metadata.generation -}}
{{- $unready := list -}}{{- $incomplete := list -}}{{- $begun := false -}}{{- $creating := false -}}
{{- range $kind := list "init" "" "ephemeral" -}}
{{- $specs := ternary "containers" (print $kind "Containers") (eq $kind "") -}}
{{- $list := ternary "containerStatuses" (print $kind "ContainerStatuses") (eq $kind "") -}}
{{- range index $pod.spec $specs -}}
{{- $c := . -}}
{{- $old := dict -}}
{{- range index $pod.status $list }}{{ if eq .name $c.name }}{{ $old = . }}{{ end }}{{ end -}}
{{- $crash := dict "pod" $pod "key" "sim.workloadkit.io/crash" "name" $c.name -}}{{- template "named" $crash -}}
{{- $sick := dict "pod" $pod "key" "sim.workloadkit.io/unready" "name" $c.name -}}{{- template "named" $sick -}}
{{- $change := dict "pod" $pod "spec" $c "old" $old -}}{{- template "changed" $change -}}
{{- $plain := and (eq $kind "init") (ne (get $c "restartPolicy") "Always") -}}
{{- $in := dict "pod" $pod "spec" $c "old" $old "now" $now "due" $due "delay" $delay "plain" $plain -}}
{{- $_ := set $in "final" (and (eq $kind "") (eq $pod.spec.restartPolicy "Never")) -}}
{{- $_ := set $in "changed" $change.yes -}}{{- $_ := set $in "crash" $crash.yes -}}
{{- $_ := set $in "unready" (or $sick.yes (eq $kind "ephemeral")) -}}
{{- $stopped := dict "pod" $pod "spec" $c "old" $old }}{{ template "stopped" $stopped }}{{ $_ := set $in "stopped" $stopped.yes -}}
{{- $_ := set $in "program" dict }}{{ $_ := set $in "programOver" false -}}
{{- if eq $kind "ephemeral" -}}
{{- $program := dict "spec" $c }}{{ template "program" $program }}{{ $_ := set $in "program" $program -}}
{{- $since := get (get (get $old "state" | default dict) "running" | default dict) "startedAt" -}}
{{- if and $program.ends $since -}}
{{- $end := (toDate "2006-01-02T15:04:05Z07:00" $since | dateModify (printf "%fs" $program.seconds)).UTC.Format "2006-01-02T15:04:05.000000Z07:00" -}}
{{- $_ := set $in "programOver" (le $end $due) -}}
{{- end -}}
{{- end -}}
{{- template "image" $in -}}
{{- template "step" $in -}}
{{- template "container" $in -}}
{{- $s := $in.status -}}
{{- $_ := set $status $list (append (get $status $list | default list) $s) -}}
{{- if and (not $plain) (not $s.ready) (ne $kind "ephemeral") }}{{ $unready = append $unready $c.name }}{{ end -}}
{{- if and (eq $kind "init") (not $plain) (not $s.started) }}{{ $incomplete = append $incomplete $c.name }}{{ end -}}
{{- if eq $kind "" -}}
{{- $fresh := and (hasKey $s.state "waiting") (not (get $s "lastState")) -}}
{{- $creating = or $creating $fresh -}}
{{- $begun = or $begun (not $fresh) -}}
{{- end -}}
{{- end -}}
{{- end -}}

{{- if not (get $pod.status "startTime") }}{{ $_ := set $status "startTime" $now }}{{ end -}}
{{- if not (get $pod.status "podIP") -}}
{{- $hosts := NodeIPsWith $pod.spec.nodeName -}}
{{- $ips := PodIPsWith $pod.spec.nodeName (get $pod.spec "hostNetwork" | default false) $pod.metadata.uid $pod.metadata.name $pod.metadata.namespace -}}
{{- with $hosts -}}
{{- $_ := set $status "hostIP" (index . 0) -}}
{{- $_ := set $status "hostIPs" (list (dict "ip" (index . 0))) -}}
{{- end -}}
{{- with $ips -}}
{{- $_ := set $status "podIP" (index . 0) -}}
{{- $_ := set $status "podIPs" (list (dict "ip" (index . 0))) -}}
{{- end -}}
{{- end -}}
{{- $_ := set $status "phase" (ternary "Pending" "Running" (and $creating (ne (get $pod.status "phase") "Running"))) -}}

{{- $out := dict "pod" $pod "now" $now "conditions" list -}}
{{- $_ := set $out "type" "PodReadyToStartContainers" }}{{ $_ := set $out "status" "True" -}}
{{- $_ := set $out "reason" "" }}{{ $_ := set $out "message" "" -}}
{{- template "condition" $out -}}
{{- $_ := set $out "type" "Initialized" -}}
{{- if and $incomplete (not $begun) -}}
{{- $_ := set $out "status" "False" }}{{ $_ := set $out "reason" "ContainersNotInitialized" -}}
{{- $_ := set $out "message" (print "containers with incomplete status: [" (join " " $incomplete) "]") -}}
{{- end -}}
{{- template "condition" $out -}}
{{- $_ := set $out "type" "ContainersReady" }}{{ $_ := set $out "status" "True" -}}
{{- $_ := set $out "reason" "" }}{{ $_ := set $out "message" "" -}}
{{- if $unready -}}
{{- $_ := set $out "status" "False" }}{{ $_ := set $out "reason" "ContainersNotReady" -}}
{{- $_ := set $out "message" (print "containers with unready status: [" (join " " $unready) "]") -}}
{{- end -}}
{{- template "condition" $out -}}
{{- $_ := set $out "type" "Ready" -}}
{{- if not $unready -}}
{{- $closed := list -}}
{{- range $pod.spec.readinessGates -}}
{{- $gate := .conditionType -}}
{{- $found := "" -}}
{{- range $pod.status.conditions }}{{ if eq .type $gate }}{{ $found = .status }}{{ end }}{{ end -}}
{{- if not $found -}}
{{- $closed = append $closed (printf "corresponding condition of pod readiness gate %q does not exist." $gate) -}}
{{- else if ne $found "True" -}}
{{- $closed = append $closed (printf "the status of pod readiness gate %q is not \"True\", but %v" $gate $found) -}}
{{- end -}}
{{- end -}}
{{- if $closed -}}
{{- $_ := set $out "status" "False" }}{{ $_ := set $out "reason" "ReadinessGatesNotReady" -}}
{{- $_ := set $out "message" (join ", " $closed) -}}
{{- end -}}
{{- end -}}
{{- template "condition" $out -}}
{{- /* A resize is done at once, so a condition that says otherwise goes. */ -}}
{{- range $pod.status.conditions -}}
{{- if has .type (list "PodResizePending" "PodResizeInProgress") -}}
{{- $_ := set $out "conditions" (append $out.conditions (dict "$patch" "delete" "type" .type)) -}}
{{- end -}}
{{- end -}}
{{- with $out.conditions }}{{ $_ := set $status "conditions" . }}{{ end -}}
{{- toJson (dict "metadata" (dict "resourceVersion" $pod.metadata.resourceVersion) "status" $status) -}}
