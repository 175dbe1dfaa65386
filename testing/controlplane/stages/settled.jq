# Says "settled" of the common Pod in which sync.tpl would find nothing to change, which spares rendering it: everything runs and
# is ready, and Ready is what the readiness gates make of it. Whatever is in doubt is left to sync.tpl. "timed" is a settled Pod
# with an ephemeral container whose program ends by itself.
(.status.conditions // []) as $conditions
| ([ .spec.readinessGates // [] | .[].conditionType as $gate
     | ([$conditions[] | select(.type == $gate) | .status] | first) as $status
     | if $status == null then "corresponding condition of pod readiness gate \"\($gate)\" does not exist."
       elif $status != "True" then "the status of pod readiness gate \"\($gate)\" is not \"True\", but \($status)"
       else empty end ] | join(", ")) as $closed
| (if $closed == "" then ["True", null, null] else ["False", "ReadinessGatesNotReady", $closed] end) as $ready
| ([$conditions[] | select(.type == "Ready") | [.status, .reason, .message]] == [$ready]) as $readyIsRight
| ([$conditions[] | select(.type == "ContainersReady") | .status] == ["True"]) as $containersReady
| ([$conditions[] | select(.type == "PodResizePending" or .type == "PodResizeInProgress")] == []) as $resized
| (.metadata.annotations // {} | has("sim.workloadkit.io/unready") or has("sim.workloadkit.io/crash") | not) as $alone
| (.metadata.annotations // {} | .["sim.workloadkit.io/stopped"] // "") as $stopped
| ([ .status | .initContainerStatuses // [], .containerStatuses // [], .ephemeralContainerStatuses // [] | .[]
     | select(.state.running and .containerID) | .containerID as $id | select($stopped | contains($id)) ] == []) as $unstopped
| [ .status.ephemeralContainerStatuses // [] | .[] | select(.state.running) | .name ] as $running
| ([ .spec.ephemeralContainers // [] | .[] | select((.command // []) + (.args // []) != [])
     | .name as $name | select($running | index($name)) ] != []) as $timed
| if ($readyIsRight and $containersReady and $resized and $alone and $unstopped
    and .status.observedGeneration == .metadata.generation and .status.phase == "Running" | not) then "busy"
  elif $timed then "timed" else "settled" end
