(.metadata.annotations // {}) as $steer
| (.status.phase == "Failed" or .status.phase == "Succeeded") as $over
| if .metadata.deletionTimestamp then
    if $over | not then "stop"
    elif (.metadata.deletionGracePeriodSeconds // 0) > 0 then "remove"
    else "none" end
  elif $over then "none"
  elif $steer | has("sim.workloadkit.io/fail") then "end"
  elif ($steer | has("sim.workloadkit.io/complete")) and .status.phase == "Running" then "end"
  else "sync" end
