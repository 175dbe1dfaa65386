package inplaceupdate

import (
	"time"

	"github.com/workloadkit/workloadkit/reason"
)

// waiting says why the current batch is not complete.
type waiting struct {
	reasons reason.List
	// proofBegins is true if the state must be written now, because time or a later image can prove something from now on.
	proofBegins bool
	// wait is the time after which time alone may end the waiting, zero if time proves nothing.
	wait time.Duration
}

func (w *waiting) step(v *view) (Step, error) {
	step := Step{Waiting: w.reasons, RequeueAfter: w.wait}
	var err error
	if w.proofBegins {
		step.Change, err = v.beginProof()
	}
	return step, err
}

// unfinished collects the reasons for which the current batch waits.
func (v *view) unfinished() waiting {
	var w waiting
	// A single write set state and spec, so the node must reach the Pod's own generation.
	if v.nodeIsBehind() && (len(v.state.LastContainerStatuses) > 0 || v.state.UpdateResources) {
		w.reasons = append(w.reasons, reason.Reason{
			Code: NotObserved, Object: v.object(), Path: "status.observedGeneration",
			Detail: "node " + v.pod.Spec.NodeName + " has not seen the newest spec",
		})
	}
	if v.state.UpdateEnvFromMetadata {
		w.reasons = append(w.reasons, v.envUnreported(nil)...)
	}
	if v.state.UpdateResources {
		w.reasons = append(w.reasons, v.unresized()...)
	}
	v.waitForImages(&w)
	if next := v.state.next(); !next.isEmpty() && v.state.PreCheckBeforeNext != nil {
		w.reasons = append(w.reasons, v.batchUnready()...)
	}
	return w
}

// waitForImages adds the containers without a running instance of the new image.
func (v *view) waitForImages(w *waiting) {
	if len(v.state.LastContainerStatuses) == 0 {
		return
	}
	confirmed := v.plainHashesMatch()
	for i := range v.containers {
		c := &v.containers[i]
		if _, recorded := c.record(); !recorded || (confirmed && !c.init) || c.runs() { // the node agent reports no native sidecars
			continue
		}
		proven, begins, left := c.timeToProof()
		if proven {
			continue
		}
		_, passes := c.passing()
		w.proofBegins = w.proofBegins || begins || passes
		if left > 0 && (w.wait == 0 || left < w.wait) {
			w.wait = left
		}
		w.reasons = append(w.reasons, c.notRunning())
	}
}

// batchUnready names the unready containers among the containers required before the next batch.
func (v *view) batchUnready() reason.List {
	var list reason.List
	for _, name := range v.state.PreCheckBeforeNext.ContainersRequiredReady {
		if status := v.container(name).status; status == nil || !status.Ready {
			list = append(list, reason.Reason{
				Code: BatchNotReady, Object: v.object(), Path: "status.containerStatuses[" + name + "].ready",
				Detail: "containers of lower launch priority wait for it",
			})
		}
	}
	return list
}
