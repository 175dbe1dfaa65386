package realnode_test

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

// longerThanCorrection is long enough for a kubelet to notice a difference between the server's status and its own: the
// kubelet looks every 10 seconds.
const longerThanCorrection = 12 * time.Second

// readyIsNotCorrected: a new Pod comes into service once and for all. An update takes the Pod out before its container
// ends and puts the Pod back afterwards, once each. The kubelet leaves the controller's condition Ready unchanged. The
// workload's grace period is longerThanCorrection.
func (f *fixture) readyIsNotCorrected(w workload) {
	f.t.Helper()
	recorder := controllertest.Watch(f.t, f, f.namespace, nil)
	pod := &f.create(w, 1)[0]
	f.quiet(w, longerThanCorrection)
	_, offset, err := audit.Read(f.cp.AuditLog(), 0, "")
	if err != nil {
		f.t.Fatal(err)
	}
	f.change(w, setImage(0, f.image("v2")))
	f.quiet(w, longerThanCorrection)

	events := recorder.Events()
	var statuses []corev1.ConditionStatus
	for i, event := range events {
		ready := podstate.Condition(event.Pod, corev1.PodReady)
		if ready == nil {
			continue // the kubelet has not written the condition yet
		}
		if len(statuses) == 0 || statuses[len(statuses)-1] != ready.Status {
			statuses = append(statuses, ready.Status)
		}
		if i > 0 && isCorrection(f, events[i-1].Pod, event.Pod) {
			f.t.Errorf("the kubelet corrects Ready: %s", cmp.Diff(podstate.Condition(events[i-1].Pod, corev1.PodReady), ready))
		}
	}
	const out, in = corev1.ConditionFalse, corev1.ConditionTrue
	want := []corev1.ConditionStatus{out, in, out, in}
	if diff := cmp.Diff(want, statuses); diff != "" {
		f.t.Errorf("Ready over time (-want +got):\n%s", diff)
	}
	requests, _, err := audit.Read(f.cp.AuditLog(), offset, "")
	if err != nil {
		f.t.Fatal(err)
	}
	f.checkSilence(requests, pod)
}

// checkSilence demands that the kubelet writes nothing between the controller's first write, which takes the Pod out of
// service, and its second, after the grace period.
func (f *fixture) checkSilence(requests []audit.Request, pod *corev1.Pod) {
	f.t.Helper()
	var writes []string
	controller := 0
	for _, r := range requests {
		if r.Namespace != pod.Namespace || r.Name != pod.Name || !r.IsWrite() {
			continue
		}
		writes = append(writes, r.UserAgent+": "+r.String())
		switch kubelet := strings.HasPrefix(r.UserAgent, "kubelet/"); {
		case !kubelet:
			controller++
		case controller == 1:
			f.t.Errorf("the kubelet wrote in the grace period: %s", r)
		}
	}
	if controller < 3 {
		f.t.Errorf("%d writes are not the kubelet's, want the gate off, the image and the gate on", controller)
	}
	f.t.Logf("writes to the Pod:\n%s", strings.Join(writes, "\n"))
}

// isCorrection reports whether a kubelet changed nothing but somebody else's condition Ready. Ready becoming True after
// the gates are open is the kubelet's part, and no correction.
func isCorrection(f *fixture, before, after *corev1.Pod) bool {
	was, is := podstate.Condition(before, corev1.PodReady), podstate.Condition(after, corev1.PodReady)
	if want, known := podpatch.Ready(before, nil); was == nil || is == nil || known && was.Status != want.Status {
		return false
	}
	if was.Status == is.Status && was.Reason == is.Reason && was.Message == is.Message {
		return false
	}
	return !f.readyIsKubelets(before) && f.readyIsKubelets(after) && equality.Semantic.DeepEqual(withoutReady(before), withoutReady(after))
}

// readyIsKubelets reports whether a kubelet wrote the status of the condition Ready or its message last.
func (f *fixture) readyIsKubelets(pod *corev1.Pod) bool {
	for _, entry := range pod.ManagedFields {
		if entry.Manager != "kubelet" || entry.FieldsV1 == nil {
			continue
		}
		var owned struct {
			Status struct {
				Conditions map[string]map[string]any `json:"f:conditions"`
			} `json:"f:status"`
		}
		if err := json.Unmarshal(entry.FieldsV1.GetRawBytes(), &owned); err != nil {
			f.t.Fatalf("fields of the kubelet: %v", err)
		}
		ready := owned.Status.Conditions[`k:{"type":"Ready"}`]
		if ready["f:status"] != nil || ready["f:message"] != nil {
			return true
		}
	}
	return false
}

// withoutReady is the Pod without the condition Ready and without the fields of every write.
func withoutReady(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.ResourceVersion, out.ManagedFields = "", nil
	ready := podstate.Condition(out, corev1.PodReady)
	*ready = corev1.PodCondition{Type: corev1.PodReady}
	return out
}
