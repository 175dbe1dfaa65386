(.metadata.annotations // {}) as $steer
| (.status.phase == "Failed" or .status.phase == "Succeeded") as $over
| if .metadata.deletionTimestamp then
    (.metadata.deletionGracePeriodSeconds // 0) as $grace
    | (.metadata.finalizers // [] | length) as $held
    | if $grace == 0 and $held == 0 then "remove"
      elif $over | not then "stop"
      elif $grace > 0 then "remove"
      else "none" end
  elif $over then "none"
  elif $steer | has("sim.workloadkit.io/fail") then "end"
  elif ($steer | has("sim.workloadkit.io/complete")) and .status.phase == "Running" then "end"
  elif .spec.restartPolicy == "Never" and ([ .status.containerStatuses // [] | .[] | .state.terminated
    | select(. and (.message // "" | startswith("starts at ") | not)) ] | length) == (.spec.containers | length) then "end"
  else "sync" end
