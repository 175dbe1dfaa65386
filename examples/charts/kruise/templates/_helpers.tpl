{{- define "kruise.externalCerts" -}}
{{- range splitList "," .Values.featureGates }}{{ if eq (trim .) "EnableExternalCerts=true" }}yes{{ end }}{{ end }}
{{- end }}

{{- define "kruise.listsCustomResources" -}}
{{- range splitList "," .Values.featureGates }}{{ if eq (trim .) "DeletionProtectionForCRDCascadingGate=true" }}yes{{ end }}{{ end }}
{{- end }}

{{- /* Whether there are agents on Nodes. */}}
{{- define "kruise.hasAgents" -}}
{{- if and .Values.daemon.enabled (not (has "KruiseDaemon=false" (splitList "," (.Values.featureGates | nospace)))) }}yes{{ end }}
{{- end }}

{{- /* What binds agents to their Nodes: policies, the webhook about all that agents write, or the webhook about requests alone. Only from 1.28 on
has a webhook conditions, to be asked about the writes of agents and of nobody else. */}}
{{- define "kruise.bindsAgents" -}}
{{- if and (include "kruise.hasAgents" .) .Values.daemon.policies }}
{{- $version := .Capabilities.KubeVersion.Version }}
{{- if semverCompare ">=1.30-0" $version }}policies{{ else if semverCompare ">=1.28-0" $version }}webhook{{ else }}requests{{ end }}
{{- end }}
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
{{- if hasKey $m.podLabels "control-plane" }}
{{- fail "manager.podLabels: control-plane is the label that Pods are found by" }}
{{- end }}
{{- if hasKey .Values.daemon.podLabels "control-plane" }}
{{- fail "daemon.podLabels: control-plane is the label that Pods are found by" }}
{{- end }}
{{- include "kruise.checkBudget" . }}
{{- include "kruise.checkNetwork" . }}
{{- end }}

{{- define "kruise.checkBudget" -}}
{{- $b := .Values.podDisruptionBudget }}{{ $replicas := int .Values.manager.replicas }}
{{- if and $b.minAvailable $b.maxUnavailable }}
{{- fail "podDisruptionBudget: minAvailable and maxUnavailable exclude each other" }}
{{- end }}
{{- if and (or $b.minAvailable $b.maxUnavailable) (not (and $b.enabled (gt $replicas 1))) }}
{{- fail "podDisruptionBudget: there is none without podDisruptionBudget.enabled=true and at least 2 manager.replicas; leave out the numbers" }}
{{- end }}
{{- if and (not (kindIs "string" $b.minAvailable)) (ge (int $b.minAvailable) $replicas) }}
{{- fail (printf "podDisruptionBudget.minAvailable: %v of %d manager.replicas would hold up every drain" $b.minAvailable $replicas) }}
{{- end }}
{{- end }}

{{- define "kruise.checkNetwork" -}}
{{- $p := .Values.networkPolicy }}{{ $s := .Values.serviceMonitor }}
{{- range $name := list "webhookCIDRs" "metricsFrom" }}
{{- if and (get $p $name) (not $p.enabled) }}
{{- fail (printf "networkPolicy.%s: there is no policy without networkPolicy.enabled=true" $name) }}
{{- end }}
{{- end }}
{{- if and $p.enabled .Values.manager.hostNetwork }}
{{- fail "networkPolicy.enabled: no policy holds for Pods with manager.hostNetwork=true" }}
{{- end }}
{{- range $name := list "interval" "labels" }}
{{- if and (get $s $name) (not $s.enabled) }}
{{- fail (printf "serviceMonitor.%s: there is no monitor without serviceMonitor.enabled=true" $name) }}
{{- end }}
{{- end }}
{{- if and $s.enabled $p.enabled (not $p.metricsFrom) }}
{{- fail "serviceMonitor.enabled: networkPolicy.metricsFrom admits nobody to the metrics" }}
{{- end }}
{{- end }}

{{- /* Adds annotations to an object: list of object, annotations. */}}
{{- define "kruise.annotate" -}}
{{- $object := index . 0 }}{{ $annotations := index . 1 }}
{{- if $annotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) $annotations ($object.metadata.annotations | default dict)) }}
{{- end }}
{{- end }}

{{- /* Whether the release installed an object, and Helm would delete it if the chart lacks it: list of root, object. */}}
{{- define "kruise.goes" -}}
{{- $release := (index . 0).Release }}{{ $annotations := (index . 1).metadata.annotations | default dict }}
{{- $ours := and (eq $release.Name (get $annotations "meta.helm.sh/release-name")) (eq $release.Namespace (get $annotations "meta.helm.sh/release-namespace")) }}
{{- if and $ours (ne "keep" (get $annotations "helm.sh/resource-policy")) }}yes{{ end }}
{{- end }}

{{- /* Whether a ClusterRole adds rights on a kind that is not built here to admin, edit or view: list of ClusterRole, names of CRDs. */}}
{{- define "kruise.grantsMore" -}}
{{- $role := index . 0 }}{{ $built := index . 1 }}{{ $more := false }}
{{- range $label, $_ := $role.metadata.labels }}{{ if hasPrefix "rbac.authorization.k8s.io/aggregate-to-" $label }}
{{- range $role.rules }}{{ $groups := .apiGroups }}{{ range .resources }}{{ $plural := splitList "/" . | first }}{{ range $groups }}
{{- if not (has (printf "%s.%s" $plural .) $built) }}{{ $more = true }}{{ end }}
{{- end }}{{ end }}{{ end }}
{{- end }}{{ end }}
{{- if $more }}yes{{ end }}
{{- end }}

{{- /* What this release installed, does not have any more, and others need, such as parts of OpenKruise's chart: CRDs, with which Helm
would delete all their objects; Namespaces, with all that is in them; rights of users. Without a cluster to ask, lookup finds nothing. */}}
{{- define "kruise.checkLost" -}}
{{- $built := list }}
{{- range $path, $_ := .Files.Glob "files/crd/*.yaml" }}
{{- $built = append $built ($.Files.Get $path | fromYaml).metadata.name }}
{{- end }}
{{- $crds := list }}{{ $namespaces := list }}{{ $roles := list }}
{{- range (lookup "apiextensions.k8s.io/v1" "CustomResourceDefinition" "" "").items }}
{{- if and (include "kruise.goes" (list $ .)) (not (and $.Values.crds.managed (has .metadata.name $built))) }}
{{- $crds = append $crds .metadata.name }}
{{- end }}
{{- end }}
{{- range (lookup "v1" "Namespace" "" "").items }}
{{- /* A manager's own Namespace goes with the manager. */}}
{{- $own := eq "openkruise" (dig "labels" "control-plane" "" .metadata) }}
{{- if and (include "kruise.goes" (list $ .)) (or (not $own) (eq .metadata.name "kruise-daemon-config")) }}
{{- $namespaces = append $namespaces .metadata.name }}
{{- end }}
{{- end }}
{{- range (lookup "rbac.authorization.k8s.io/v1" "ClusterRole" "" "").items }}
{{- if and (include "kruise.goes" (list $ .)) (include "kruise.grantsMore" (list . $built)) }}
{{- $roles = append $roles .metadata.name }}
{{- end }}
{{- end }}
{{- $commands := list }}
{{- range list (prepend $crds "crd") (prepend $namespaces "namespace") (prepend $roles "clusterrole") }}{{ if rest . }}
{{- $commands = append $commands (printf "kubectl annotate %s helm.sh/resource-policy=keep" (join " " .)) }}
{{- end }}{{ end }}
{{- if $commands }}
{{- fail (printf "release %s/%s has installed CRDs, Namespaces or rights of users that it does not hold any more, and this would delete them, with all their objects. To keep them:\n\n%s\n" $.Release.Namespace $.Release.Name (join "\n" $commands)) }}
{{- end }}
{{- end }}

{{- /* Where the API server calls: list of root, clientConfig. Once the manager has put a URL there, the Service would be refused. */}}
{{- define "kruise.clientConfig" -}}
{{- $root := index . 0 }}{{ $config := index . 1 }}
{{- with $root.Values.manager.webhook.host }}
{{- $host := ternary (printf "[%s]" .) . (contains ":" .) }}
{{- $_ := set $config "url" (printf "https://%s:%v%s" $host $root.Values.manager.webhook.port $config.service.path) }}
{{- $_ := unset $config "service" }}
{{- else }}
{{- $_ := set $config.service "namespace" $root.Values.installation.namespace }}
{{- end }}
{{- end }}
