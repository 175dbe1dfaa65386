package nodepodprobe

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// sight is the content of the cache at the beginning of a reconcile. A reconcile of a marker reads the cache again
// after each read from the API server.
type sight struct {
	list  v1alpha1.NodePodProbe
	lists v1alpha1.NodePodProbeList
	pods  corev1.PodList
}

func (w *story) look(t *chaos.Task, call *faultapi.Call) {
	if call != nil && (t.Controller != "podprobemarker" || !call.IsRead()) {
		return
	}
	v := &sight{}
	t.View = v
	w.must(t.Process.Cache.List(context.Background(), &v.pods))
	w.must(t.Process.Cache.List(context.Background(), &v.lists))
	w.must(client.IgnoreNotFound(t.Process.Cache.Get(context.Background(), client.ObjectKey{Name: t.Object.Name}, &v.list)))
}

// judge checks that a controller may make a write.
func (w *story) judge(write *chaos.Write) {
	w.learn()
	controller := map[string]string{"podprobemarkers": "podprobemarker"}[write.Call.Resource.Resource]
	if write.Task == nil || write.Task.Controller != cmp.Or(controller, "nodepodprobe") {
		w.Failf("stranger", "%s", write.Call)
	}
	switch object := cmp.Or[any](write.Before, write.After).(type) {
	case *corev1.Pod:
		after, ok := write.After.(*corev1.Pod)
		if !ok {
			w.Failf("stranger", "%s", write.Call)
		}
		w.judgePod(object, after)
	case *v1alpha1.NodePodProbe:
		before, _ := write.Before.(*v1alpha1.NodePodProbe)
		after, _ := write.After.(*v1alpha1.NodePodProbe)
		w.judgeList(before, after)
	case *v1alpha1.PodProbeMarker:
		after, _ := write.After.(*v1alpha1.PodProbeMarker)
		w.judgeMarker(write, object, after)
	case *v1beta1.ContainerRecreateRequest:
		w.judgeRequest(write, object)
	default:
		w.Failf("stranger", "%s", write.Call)
	}
}

// judgePod checks a change of a Pod: a report of the Pod's own Node justifies a new mark, that is a label, annotation
// or condition for a probe result. The ledger, the annotation that records the Pod's marks, justifies the removal of
// a mark. Other fields, and Pods that have ended or are being deleted, must not change.
func (w *story) judgePod(before, after *corev1.Pod) {
	if before.DeletionTimestamp != nil || before.Status.Phase == corev1.PodFailed || before.Status.Phase == corev1.PodSucceeded {
		w.Failf("late", "Pod %s is changed on its way out", before.Name)
	}
	was, is := before.DeepCopy(), after.DeepCopy()
	for _, pod := range []*corev1.Pod{was, is} {
		pod.Labels, pod.Annotations, pod.ResourceVersion, pod.Status.Conditions = nil, nil, "", nil
	}
	if diff := gocmp.Diff(was, is, cmpopts.EquateEmpty()); diff != "" {
		w.Failf("stranger", "Pod %s (-before +after):\n%s", before.Name, diff)
	}
	ledger := ledgerOf(before)
	w.judgeKeys(before, "label", before.Labels, after.Labels, ledger,
		func(h held) map[string]string { return h.Labels }, func(p v1alpha1.ProbeMarkerPolicy) map[string]string { return p.Labels })
	w.judgeKeys(before, "annotation", before.Annotations, after.Annotations, ledger,
		func(h held) map[string]string { return h.Annotations }, func(p v1alpha1.ProbeMarkerPolicy) map[string]string { return p.Annotations })
	for _, c := range after.Status.Conditions {
		old := podstate.Condition(before, c.Type)
		if old == nil || old.Status != c.Status || old.Reason != c.Reason || old.Message != c.Message {
			w.judgeCondition(before, old, &c, ledger)
		}
	}
	if len(after.Status.Conditions) < len(before.Status.Conditions) {
		w.Failf("condition", "conditions of Pod %s are removed: %s became %s", before.Name, text(before.Status.Conditions), text(after.Status.Conditions))
	}
}

func (w *story) judgeKeys(pod *corev1.Pod, kind string, before, after map[string]string, ledger map[string]held,
	holds func(held) map[string]string, sets func(v1alpha1.ProbeMarkerPolicy) map[string]string,
) {
	for key, value := range after {
		if old, had := before[key]; (!had || old != value) && key != apps.AnnotationProbeMarks && !w.isReported(pod.UID, func(p v1alpha1.ProbeMarkerPolicy, s v1alpha1.ProbeState) bool {
			return p.State == s && sets(p)[key] == value
		}) {
			w.Failf("PP-62", "%s %s of Pod %s becomes %q without a report", kind, key, pod.Name, value)
		}
	}
	for key, value := range before {
		if _, stays := after[key]; stays || key == apps.AnnotationProbeMarks {
			continue
		}
		inLedger := false
		for _, h := range ledger {
			inLedger = inLedger || holds(h)[key] == value
		}
		if !inLedger && !w.isReported(pod.UID, func(p v1alpha1.ProbeMarkerPolicy, s v1alpha1.ProbeState) bool {
			_, has := sets(p)[key]
			return has && p.State != s
		}) {
			w.Failf("PP-12", "%s %s=%s of Pod %s is removed, and no probe has set it", kind, key, value, pod.Name)
		}
	}
}

// isReported reports whether fits returns true for a marker policy of a probe, present or past, and a state that a
// Node has reported for the probe.
func (w *story) isReported(pod types.UID, fits func(v1alpha1.ProbeMarkerPolicy, v1alpha1.ProbeState) bool) bool {
	for name, versions := range w.past.probes {
		for _, p := range versions {
			for _, policy := range p.MarkerPolicy {
				if w.past.hasSaid(pod, name, func(s v1alpha1.ProbeState) bool { return fits(policy, s) }) {
					return true
				}
			}
		}
	}
	return false
}

func (w *story) judgeCondition(pod *corev1.Pod, old, c *corev1.PodCondition, ledger map[string]held) {
	states := map[string]v1alpha1.ProbeState{"ProbeSucceeded": v1alpha1.ProbeSucceeded, "ProbeFailed": v1alpha1.ProbeFailed, "ProbeUnknown": v1alpha1.ProbeUnknown}
	if c.Reason == "ProbeGone" {
		isHeld := slices.ContainsFunc(slices.Collect(maps.Values(ledger)), func(h held) bool { return h.Condition == string(c.Type) })
		if old == nil || states[old.Reason] == "" || !isHeld || c.Status != corev1.ConditionUnknown {
			w.Failf("PP-12", "condition %s of Pod %s becomes %s, with the ledger %s", text(old), pod.Name, text(c), text(ledger))
		}
		return
	}
	state := states[c.Reason]
	if (state == v1alpha1.ProbeSucceeded) != (c.Status == corev1.ConditionTrue) || state != v1alpha1.ProbeSucceeded && c.Status != corev1.ConditionFalse {
		w.Failf("PP-8", "Pod %s gets %s", pod.Name, text(c))
	}
	for name, versions := range w.past.probes {
		if w.past.said[saying{pod.UID, name, state, c.Message}] && slices.ContainsFunc(versions, func(p wish) bool { return p.PodConditionType == string(c.Type) }) {
			return
		}
	}
	w.Failf("PP-62", "Pod %s gets %s without a report", pod.Name, text(c))
}

// judgeList checks the write of a NodePodProbe: the object is created for a ready Node, is deleted with the Node, and
// contains only probes of PodProbeMarkers for Pods on the Node.
func (w *story) judgeList(before, after *v1alpha1.NodePodProbe) {
	switch {
	case before == nil && (!w.past.ready[after.Name] || len(after.Status.PodProbeStatuses) > 0):
		w.Failf("PP-1", "the list of %s is made", after.Name)
	case after == nil:
		node, exists := stored(w, &corev1.Node{}, "", before.Name)
		if exists && !w.past.virtual[node.Name] && node.CreationTimestamp.Before(&before.CreationTimestamp) {
			w.Failf("PP-1", "the list of Node %s is deleted", node.Name)
		}
		return
	case before != nil && text(before.Status) != text(after.Status):
		w.Failf("stranger", "the manager writes the status of %s", after.Name)
	}
	for _, p := range after.Spec.PodProbes {
		l := w.past.pods[types.UID(p.UID)]
		if l == nil || l.namespace != p.Namespace || l.name != p.Name || l.node != after.Name || !l.addresses[p.IP] || len(p.Probes) == 0 {
			w.Failf("PP-3", "the list of %s has %s", after.Name, text(p))
		}
		for _, probe := range p.Probes {
			if !w.isWished(l, &probe) {
				w.Failf("PP-3", "the list of %s has the probe %s for Pod %s", after.Name, text(probe), p.Name)
			}
		}
	}
}

// isWished reports whether a marker of the Pod has asked for a probe, or whether the Pod has the moved liveness probe.
func (w *story) isWished(l *life, probe *v1alpha1.ContainerProbe) bool {
	if !strings.Contains(probe.Name, "#") {
		return probe.Name == l.name+"-"+probe.ContainerName
	}
	return slices.ContainsFunc(w.past.probes[probe.Name], func(p wish) bool {
		marker, _, _ := strings.Cut(probe.Name, "#")
		isOf := l.lists["-"] && l.labels[p.app]
		for list := range l.lists {
			isOf = isOf || slices.Contains(strings.Split(list, ","), marker)
		}
		return isOf && p.ContainerName == probe.ContainerName && gocmp.Equal(resolved(p.Probe), probe.Probe)
	})
}

// resolved returns the probe with the number of the port in place of the port's name.
func resolved(p v1alpha1.ContainerProbeSpec) v1alpha1.ContainerProbeSpec {
	p = *p.DeepCopy()
	if p.TCPSocket != nil {
		p.TCPSocket.Port.Type, p.TCPSocket.Port.StrVal, p.TCPSocket.Port.IntVal = 0, "", 8080
	}
	return p
}

// judgeMarker checks the write of a marker: only the status and the finalizer change. The finalizer is removed only
// when the cache shows no probe and no mark of the marker.
func (w *story) judgeMarker(write *chaos.Write, before, after *v1alpha1.PodProbeMarker) {
	if after != nil && (text(before.Spec) != text(after.Spec) || text(before.Labels) != text(after.Labels)) {
		w.Failf("stranger", "%s", write.Call)
	}
	if after != nil && len(after.Finalizers) >= len(before.Finalizers) {
		return
	}
	if before.DeletionTimestamp == nil {
		w.Failf("PP-6", "marker %s loses its finalizer", before.Name)
	}
	v, _ := write.Task.View.(*sight)
	for _, list := range v.lists.Items {
		for _, p := range list.Spec.PodProbes {
			if slices.ContainsFunc(p.Probes, func(c v1alpha1.ContainerProbe) bool { return strings.HasPrefix(c.Name, before.Name+"#") }) {
				w.Failf("PP-6", "marker %s goes, and %s runs %s", before.Name, list.Name, text(p))
			}
		}
	}
	for i := range v.pods.Items {
		pod := &v.pods.Items[i]
		for name := range ledgerOf(pod) {
			if podstate.IsActive(pod) && strings.HasPrefix(name, before.Name+"#") {
				w.Failf("PP-6", "marker %s goes, and Pod %s has marks of %s", before.Name, pod.Name, name)
			}
		}
	}
}

// judgeRequest checks a ContainerRecreateRequest: the present instance of the container has failed the liveness
// probe, no other container of the Pod restarts, the disruption budget permits the restart, and the waits between
// restarts grow.
func (w *story) judgeRequest(write *chaos.Write, r *v1beta1.ContainerRecreateRequest) {
	if write.Before != nil || len(r.Spec.Containers) != 1 {
		w.Failf("EL-3", "%s", write.Call)
	}
	container, uid := r.Spec.Containers[0].Name, podOf(r)
	for _, other := range faultapi.All[*v1beta1.ContainerRecreateRequest](w.Server) {
		if other.Name != r.Name && !hasEnded(other) {
			w.Failf("EL-2", "container %s of Pod %s is restarted beside %s of Pod %s", container, r.Spec.PodName, other.Spec.Containers[0].Name, other.Spec.PodName)
		}
	}
	w.mu.Lock()
	permitted := w.granted[uid]
	delete(w.granted, uid)
	w.mu.Unlock()
	if !permitted {
		w.Failf("EL-2", "container %s of Pod %s is restarted without permission", container, r.Spec.PodName)
	}
	v, _ := write.Task.View.(*sight)
	i := slices.IndexFunc(v.pods.Items, func(pod corev1.Pod) bool { return pod.UID == uid })
	if i < 0 {
		w.Failf("EL-2", "an unknown Pod %s", uid)
	}
	status := podstate.ContainerStatus(&v.pods.Items[i], container)
	state := former(&v.list, string(uid), r.Spec.PodName+"-"+container)
	if status == nil || status.State.Running == nil || state.State != v1alpha1.ProbeFailed || !state.LastProbeTime.After(status.State.Running.StartedAt.Time) {
		w.Failf("EL-2", "container %s of Pod %s is restarted: %s, reported as %s", container, r.Spec.PodName, text(status), text(state))
	}
	key := restarted{write.Task.Process, uid, container}
	if last, known := w.restarts[key]; known && time.Since(last) < 10*time.Second {
		w.Failf("EL-2", "container %s of Pod %s is restarted twice within %v", container, r.Spec.PodName, time.Since(last))
	}
	w.restarts[key] = time.Now()
}

// restarted identifies a container for which a process has requested a restart.
type restarted struct {
	by        *chaos.Process
	pod       types.UID
	container string
}
