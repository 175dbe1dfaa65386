# Says "settled" of the common Pod in which sync.tpl would find nothing to change, which spares rendering it: everything runs and
# is ready, and Ready is what the readiness gates make of it. Whatever is in doubt is left to sync.tpl.
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
| if $readyIsRight and $containersReady and $resized and $alone
    and .status.observedGeneration == .metadata.generation and .status.phase == "Running"
  then "settled" else "busy" end
