package inplaceupdate

import (
	"time"

	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// probing is the time, after a period of the startup probe, for which the kubelet may still report the container as
// started by mistake: times have whole seconds, and the kubelet needs time to run the probe and to report the result.
const probing = 3 * time.Second

// waitForStarts adds to w a reason for each container whose new instance may be reported as started although its
// startup probe has not run yet. Until the next run of the startup probe, kubelets copy the field "started" from the
// old instance to the new instance (pkg/kubelet/prober/worker.go, since Kubernetes 1.35). Without a readiness probe,
// the container would be Ready during this time. Restarts after the opening of the gate do not belong to the update.
func (v *view) waitForStarts(w *waiting) {
	hasGate := podstate.HasGate(v.pod, v.config.Keys.Gate)
	if hasGate && podstate.IsTrue(v.pod, v.config.Keys.Gate) {
		return
	}
	for i := range v.containers {
		c := &v.containers[i]
		_, changed := c.record()
		if left := c.untilProbed(); left > 0 && (hasGate || changed) {
			if w.wait == 0 || left < w.wait {
				w.wait = left
			}
			w.reasons = append(w.reasons, reason.Reason{
				Code: StartNotProbed, Object: v.object(), Path: "status.containerStatuses[" + c.name + "].started",
				Detail: "the kubelet may not have run the startup probe of the new instance yet",
				Remedy: "add a readiness probe, or a startup probe with a shorter period",
			})
		}
	}
}

// untilProbed returns the time for which the reported start of the container is uncertain; 0 if the start is certain.
func (c *container) untilProbed() time.Duration {
	if c.spec == nil || c.status == nil || c.spec.StartupProbe == nil || c.spec.ReadinessProbe != nil {
		return 0
	}
	running := c.status.State.Running
	if running == nil || !ptr.Deref(c.status.Started, false) {
		return 0
	}
	period := 10 * time.Second // the API server's default (pkg/apis/core/v1/defaults.go)
	if seconds := c.spec.StartupProbe.PeriodSeconds; seconds > 0 {
		period = time.Duration(seconds) * time.Second
	}
	return min(max(running.StartedAt.Add(period+probing).Sub(c.view.now), 0), period+probing)
}
