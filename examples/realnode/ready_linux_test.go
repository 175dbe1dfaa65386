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

// longerThanCorrection is a time in which a kubelet would notice that the Pod's status on the API server differs from
// the kubelet's own status. The kubelet compares both statuses every 10 seconds.
const longerThanCorrection = 12 * time.Second

// readyIsNotCorrected checks how often the condition Ready changes. A new Pod becomes ready once. An update takes the
// Pod out of service once before its container ends, and puts the Pod back once afterwards. The kubelet does not
// change the condition Ready that the controller has written. The grace period of the workload is
// longerThanCorrection.
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

// checkSilence checks that the kubelet writes nothing between two writes of the controller: the first write takes the
// Pod out of service, and the second write follows after the grace period.
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

// isCorrection reports whether a kubelet changed only a condition Ready that another client had written. If the
// kubelet sets Ready to True after the readiness gates have opened, this is the kubelet's task, and no correction.
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

// readyIsKubelets reports whether the kubelet was the last to write the status or the message of the condition Ready.
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

// withoutReady returns the Pod without the condition Ready, and without the fields that change with every write.
func withoutReady(pod *corev1.Pod) *corev1.Pod {
	out := pod.DeepCopy()
	out.ResourceVersion, out.ManagedFields = "", nil
	ready := podstate.Condition(out, corev1.PodReady)
	*ready = corev1.PodCondition{Type: corev1.PodReady}
	return out
}
