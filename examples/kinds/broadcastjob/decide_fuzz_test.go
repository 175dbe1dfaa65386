package broadcastjob

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
)

// FuzzDecide decides for a job on a few Nodes with Pods in any state. No Node gets a second or unwanted Pod, the
// number of running Pods stays within the limit, and only unfinished Pods are deleted. The numbers in the status add
// up, and a second decision equals the first.
func FuzzDecide(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 0}, []byte{0, 0, 0}, []byte{0, 0, 1, 1, 2, 2})
	f.Add([]byte{2, 1, 7, 0, 1}, []byte{0, 1, 2, 3, 0}, []byte{0, 3, 1, 4, 2, 5, 3, 6, 4, 7})
	f.Add([]byte{3, 2, 0, 2, 0}, []byte{0, 0, 0}, []byte{0, 1, 0, 0, 1, 5, 2, 3})
	f.Add([]byte{4, 3, 31, 1, 9}, []byte{0, 4, 0, 2}, []byte{0, 6, 1, 7, 2, 2, 3, 9, 9, 1})
	f.Fuzz(func(t *testing.T, spec, nodeBytes, podBytes []byte) {
		j, nodes, pods := drawn(spec), drawnNodes(nodeBytes), drawnPods(podBytes)
		decided := func() *decision {
			d, err := decide(&observation{Job: j, Settings: settingsOf(j), Nodes: nodes, Pods: pods, Now: second(20)})
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		d := decided()
		checkDecision(t, j, d, nodes, pods)
		slices.Reverse(nodes)
		slices.Reverse(pods)
		told := func(d *decision) any { return fmt.Sprint(d.Create, d.Delete, d.Duplicates, d.Step, d.Status) }
		if diff := cmp.Diff(told(d), told(decided())); diff != "" {
			t.Errorf("decided again (-first +second):\n%s", diff)
		}
	})
}

func checkDecision(t *testing.T, j *v1beta1.BroadcastJob, d *decision, nodes []*corev1.Node, pods []*corev1.Pod) {
	t.Helper()
	taken, active := map[string]bool{}, 0
	for _, pod := range pods {
		if taken[pod.Spec.NodeName] = true; completion.StandingOf(pod, j.Spec.FailurePolicy.RestartLimit) == completion.Active {
			active++
		}
	}
	for i, name := range d.Create {
		at := slices.IndexFunc(nodes, func(n *corev1.Node) bool { return n.Name == name })
		if at < 0 || len(nodes[at].Spec.Taints) > 0 || nodes[at].Spec.Unschedulable || taken[name] || slices.Contains(d.Create[:i], name) {
			t.Errorf("a Pod for Node %s", name)
		}
	}
	most := int(j.Spec.Parallelism.IntVal)
	if len(d.Create) > 0 && (j.Spec.Paused || j.Status.Finished() || active+len(d.Create) > most) {
		t.Errorf("%d Pods are created beside %d, %d may run; paused %t, %+v", len(d.Create), active, most, j.Spec.Paused, j.Status)
	}
	for _, one := range d.Delete {
		if podstate.HasEnded(one.Pod) || one.DeletionTimestamp != nil || j.Spec.Paused && !j.Status.Finished() {
			t.Errorf("Pod %s is deleted: %s", one.Name, one.Why)
		}
	}
	s := &d.Status
	if !j.Status.Finished() && int(s.Active) != active || s.Active+s.Succeeded+s.Failed > int32(len(pods))+j.Status.Active+j.Status.Succeeded+j.Status.Failed {
		t.Errorf("%d Pods, %d active: %+v", len(pods), active, s)
	}
	if j.Status.Finished() != (d.Step.State == "Over") || d.Step.Remove && !j.Status.Finished() || j.Status.Finished() && s.Phase != j.Status.Phase {
		t.Errorf("%+v of %+v", d.Step, j.Status)
	}
}

func drawn(data []byte) *v1beta1.BroadcastJob {
	at := func(i int) byte {
		if i < len(data) {
			return data[i]
		}
		return 0
	}
	return job(parallelism(intstr.FromInt32(int32(at(0)%6))), restartLimit(int32(at(1)%3)), func(j *v1beta1.BroadcastJob) {
		if flags := at(2); flags > 0 {
			j.Spec.Paused = flags&1 > 0
			if flags&2 > 0 {
				deadline(10)(j)
			}
			if flags&4 > 0 {
				ttl(int32(flags))(j)
			}
			if flags&8 > 0 {
				j.Status.StartTime = timeAt(int(flags & 15))
			}
			if flags&16 > 0 {
				j.Spec.CompletionPolicy = v1beta1.CompletionPolicy{Type: v1beta1.Never}
			}
		}
		j.Spec.FailurePolicy.Type = []v1beta1.FailurePolicyType{"FailFast", "Continue", "Pause"}[at(3)%3]
		j.Status.Phase = []v1beta1.BroadcastJobPhase{"", "running", "paused", "completed", "failed"}[at(4)%5]
		j.Status.Failed, j.Status.Active = int32(at(4)/5%4), int32(at(4)/20%4)
		if j.Status.Finished() {
			j.Status.CompletionTime = timeAt(int(at(4) % 30))
		}
	})
}

func drawnNodes(data []byte) (out []*corev1.Node) {
	kinds := []func(*corev1.Node){func(*corev1.Node) {}, tainted("NoSchedule"), tainted("NoExecute"), cordoned, func(*corev1.Node) {}}
	for i, b := range data[:min(len(data), 8)] {
		out = append(out, node(fmt.Sprintf("n%d", i), kinds[int(b)%len(kinds)]))
	}
	return out
}

func drawnPods(data []byte) (out []*corev1.Pod) {
	kinds := []func(*corev1.Pod){
		func(*corev1.Pod) {}, well, broken, dying, restarted(1), restarted(0, 3), func(p *corev1.Pod) { well(p); dying(p) }, phase(corev1.PodPending),
	}
	for i := 0; i+1 < min(len(data), 24); i += 2 {
		out = append(out, pod(fmt.Sprintf("n%d", data[i]%9), named(fmt.Sprintf("p%d", i)), kinds[int(data[i+1])%len(kinds)]))
	}
	return out
}
