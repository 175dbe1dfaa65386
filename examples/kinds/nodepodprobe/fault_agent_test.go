package nodepodprobe

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

func text(value any) string {
	raw, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

func (w *story) list(node string) *v1alpha1.NodePodProbe {
	list, exists := stored(w, &v1alpha1.NodePodProbe{}, "", node)
	if !exists || list.DeletionTimestamp != nil {
		return nil
	}
	return list
}

// report lets the agent of a Node write the states of the probes in the spec, or in an older version of the spec.
func (w *story) report(node string) (changed bool) {
	list := w.list(node)
	if list == nil || w.silent[node] {
		return false
	}
	seen := w.seen[node]
	if seen == nil || seen.UID != list.UID || w.Over() || w.Chance(70) {
		seen = list.DeepCopy()
	}
	w.seen[node] = seen
	status := v1alpha1.NodePodProbeStatus{}
	for _, p := range seen.Spec.PodProbes {
		of := v1alpha1.PodProbeStatus{Namespace: p.Namespace, Name: p.Name, UID: p.UID}
		for _, probe := range p.Probes {
			if state, known := w.probed(node, p.UID, &probe, former(list, p.UID, probe.Name)); known {
				of.ProbeStates = append(of.ProbeStates, state)
			}
		}
		if len(of.ProbeStates) > 0 {
			status.PodProbeStatuses = append(status.PodProbeStatuses, of)
		}
	}
	return w.write(list, status)
}

func (w *story) write(list *v1alpha1.NodePodProbe, status v1alpha1.NodePodProbeStatus) bool {
	if equality.Semantic.DeepEqual(list.Status, status) {
		return false
	}
	w.Logf("agent of %s: %s", list.Name, text(status))
	list.Status = status
	w.must(w.User.Status().Update(context.Background(), list))
	return true
}

func former(list *v1alpha1.NodePodProbe, uid, probe string) (state v1alpha1.ContainerProbeState) {
	for _, p := range list.Status.PodProbeStatuses {
		for _, s := range p.ProbeStates {
			if p.UID == uid && s.Name == probe {
				return s
			}
		}
	}
	return state
}

// probed returns the state of a probe. The state is Unknown in the agent's first report about a new container
// instance, and in the first second after the start of the instance.
func (w *story) probed(node, uid string, probe *v1alpha1.ContainerProbe, before v1alpha1.ContainerProbeState) (state v1alpha1.ContainerProbeState, known bool) {
	i := slices.IndexFunc(w.Nodes.Instances(), func(i faultapi.Instance) bool { return string(i.Pod.UID) == uid && i.Name == probe.ContainerName })
	if i < 0 {
		return before, before.Name != ""
	}
	instance, now := w.Nodes.Instances()[i], metav1.NewTime(time.Now().Truncate(time.Second))
	state = v1alpha1.ContainerProbeState{Name: probe.Name, State: v1alpha1.ProbeSucceeded, Message: "well", LastProbeTime: now, LastTransitionTime: now}
	slot, short := node+"/"+uid+"/"+probe.Name, probe.Name[strings.LastIndexAny(probe.Name, "#-")+1:]
	switch {
	case instance.Exit != nil:
		state.State, state.Message = v1alpha1.ProbeFailed, "does not run"
	case w.instances[slot] != instance.ID || now.Sub(instance.Started.Time) < time.Second:
		state.State, state.Message, state.LastProbeTime = v1alpha1.ProbeUnknown, "", metav1.Time{}
	case w.fails[uid+"/"+short]:
		state.State, state.Message = v1alpha1.ProbeFailed, "sick"
	}
	w.instances[slot] = instance.ID
	if before.State == state.State && before.Message == state.Message {
		state = before
	}
	return state, true
}

// lie writes false or invalid results into the status of a Node's NodePodProbe.
func (w *story) lie(node string) {
	list := w.list(node)
	if list == nil {
		return
	}
	status := *list.Status.DeepCopy()
	for range 1 + w.Rand().IntN(4) {
		entry := v1alpha1.PodProbeStatus{Namespace: w.one([]string{team, "kube-system"}), Name: w.one(podNames()), UID: "none"}
		if pod := w.AnyPod(); pod != nil {
			entry.Name, entry.UID = pod.Name, string(pod.UID)
		}
		for range 1 + w.Rand().IntN(3) {
			entry.ProbeStates = append(entry.ProbeStates, v1alpha1.ContainerProbeState{
				Name:    w.one([]string{"m#p", "xm#p", "other#q", "none#p", "m#p#q", "p", "#", "", entry.Name + "-app"}),
				State:   v1alpha1.ProbeState(w.one([]string{"Succeeded", "Failed", "Unknown", "Odd", ""})),
				Message: w.one([]string{"a lie", "", strings.Repeat("lie ", 1000)}), LastProbeTime: metav1.NewTime(time.Now().Add(time.Hour).Truncate(time.Second)),
			})
		}
		status.PodProbeStatuses = append(status.PodProbeStatuses, entry)
	}
	w.write(list, status)
}

func podOf(r *v1beta1.ContainerRecreateRequest) types.UID { return r.OwnerReferences[0].UID }

func hasEnded(r *v1beta1.ContainerRecreateRequest) bool { return r.Status.CompletionTime != nil }

// restartContainers lets the agents carry out ContainerRecreateRequests, one step for each request.
func (w *story) restartContainers() (changed bool) {
	for _, r := range faultapi.All[*v1beta1.ContainerRecreateRequest](w.Server) {
		r := r.DeepCopy()
		if hasEnded(r) {
			if time.Since(r.Status.CompletionTime.Time) > time.Minute {
				w.must(w.User.Delete(context.Background(), r))
				changed = true
			}
			continue
		}
		if !w.Over() && w.Chance(50) {
			continue
		}
		name := r.Spec.Containers[0].Name
		w.Logf("agent: restarts %s of Pod %s: %t", name, r.Spec.PodName, w.Nodes.Crash(podOf(r), name))
		r.Status.Phase, r.Status.CompletionTime = v1beta1.ContainerRecreateRequestCompleted, new(metav1.Now())
		w.must(w.User.Status().Update(context.Background(), r))
		changed = true
	}
	return changed
}

// work lets all agents work.
func (w *story) work() bool {
	changed := w.restartContainers()
	for _, name := range nodeNames() {
		changed = w.report(name) || changed
	}
	return changed
}

// livenessNames returns the names of the moved liveness probes of a Pod.
func livenessNames(pod *corev1.Pod) []string {
	return []string{fmt.Sprintf("%s-app", pod.Name), fmt.Sprintf("%s-log", pod.Name)}
}
