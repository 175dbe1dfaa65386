// Package requesttest acts as further clients of Pods with ContainerRecreateRequests. The tests with random faults of
// the controller and of the node agent use this package.
package requesttest

import (
	"context"

	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/podreadiness"
	"github.com/workloadkit/workloadkit/podreadiness/gatewriter"
	"github.com/workloadkit/workloadkit/testing/chaos"
)

// OtherHolder acts as another controller that has an entry in the readiness gate of a Pod: OtherHolder closes the
// gate, or opens the gate again.
func OtherHolder(ctx context.Context, w *chaos.World) {
	pod := w.AnyPod()
	if pod == nil {
		return
	}
	gate, err := gatewriter.New(w.User, w.User, clock.RealClock{})
	if err != nil {
		w.Failf("story", "%v", err)
	}
	edit, other := podreadiness.Edit{}, []podreadiness.Holder{{UserAgent: "Lifecycle", Key: "preUpdateHook"}}
	if holds := w.Chance(50); holds {
		edit.Hold = other
	} else {
		edit.Release, edit.Initialize = other, true
	}
	_, err = gate.Edit(ctx, pod, apps.ConditionKruisePodReady, edit)
	w.Logf("others: hold Pod %s: %t, %v", pod.Name, len(edit.Hold) > 0, err)
}
