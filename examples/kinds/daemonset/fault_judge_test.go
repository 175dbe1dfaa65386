package daemonset

import (
	"maps"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kruise/faulttest"
	"github.com/workloadkit/workloadkit/examples/kruise/restart/restarttest"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// endings identifies Pods that end one after the other on the same Node, while neither the DaemonSet's spec nor the
// controller's process changes.
type endings struct {
	process    int
	node       string
	generation int64
}

// ending contains the earliest time of the next deletion of an ended Pod, and the pause before the previous deletion.
type ending struct {
	next time.Time
	wait time.Duration
	pass *sight
}

// judge compares each write to a Pod, and each deletion of a revision, with the objects that the reconciliation has
// seen.
func (w *story) judge(x *chaos.Write) {
	v, _ := x.Task.View.(*sight)
	switch x.Call.Resource.Resource {
	case "controllerrevisions":
		if rev, ok := x.Before.(*appsv1.ControllerRevision); ok && x.Call.Verb == "delete" {
			w.judgeHistory(v, rev)
		}
		return
	case "containerrecreaterequests":
		w.judgeRestart(v, x)
		return
	case "pods":
	default:
		return
	}
	before, _ := x.Before.(*corev1.Pod)
	after, _ := x.After.(*corev1.Pod)
	adopts := before != nil && after != nil && metav1.GetControllerOf(before) == nil && w.isOurs(after)
	switch {
	case adopts:
		if v == nil || !v.adoptable[before.UID] {
			w.Failf("stranger", "Pod %s is adopted, which is not selected", before.Name)
		}
	case before != nil && !w.isOurs(before):
		w.Failf("stranger", "%s of Pod %s, which is somebody else's", x.Call.Verb, before.Name)
	case v == nil || v.owner == nil:
		if x.Call.Verb == "delete" || x.Call.Verb == "create" || closes(before, after) {
			w.Failf("loops", "%s of Pod %s by the Pods' own loop", x.Call.Verb, x.Call.Name)
		}
	case v.unsure:
	case !makesSense(v.owner):
		w.Failf("invalid", "%s of Pod %s, while the spec makes no sense", x.Call.Verb, x.Call.Name)
	case before == nil:
		w.judgeCreation(v, after)
	case after != nil && metav1.GetControllerOf(after) == nil: // released
		if seen := v.pods[before.UID]; seen == nil || seen.Labels["app"] == "web" {
			w.Failf("release", "Pod %s is released, which is selected", before.Name)
		}
	default:
		w.judgeChange(v, x, before, after)
	}
}

// judgeRestart checks that a restart of containers stays within the budget of updates.
func (w *story) judgeRestart(v *sight, x *chaos.Write) {
	if v == nil || v.owner == nil {
		w.Failf("restart", "%s of %s by another loop", x.Call.Verb, x.Call.Name)
	}
	if v.unsure {
		return
	}
	w.agents.Judge(x, restarttest.View{
		Owner: v.owner, Pods: slices.Collect(maps.Values(v.pods)), Least: v.desired() - v.most(), Paused: ptr.Deref(v.rolling().Paused, false),
		IsAvailable: func(pod *corev1.Pod) bool {
			p := v.byName[nodeOf(pod)]
			return p != nil && p.run && v.isAvailable(pod)
		},
	})
}

// judgeHistory checks that the controller deletes no revision that has a Pod, because only the revision contains the
// Pod's template.
func (w *story) judgeHistory(v *sight, rev *appsv1.ControllerRevision) {
	for _, pod := range v.pods {
		if !v.unsure && runs(pod) && revision.Same(pod.Labels[apps.LabelRevision], rev.Name) {
			w.Failf("history", "revision %s is deleted, which a Pod is at", rev.Name)
		}
	}
}

func closes(before, after *corev1.Pod) bool {
	return podstate.GateOpen(before, apps.ConditionInPlaceUpdateReady) && !podstate.GateOpen(after, apps.ConditionInPlaceUpdateReady)
}

func (w *story) judgeCreation(v *sight, pod *corev1.Pod) {
	p := v.byName[nodeOf(pod)]
	if p == nil || !p.run {
		w.Failf("fit", "Pod %s is created for Node %s, which is not to have one: %+v", pod.Name, nodeOf(pod), p)
	}
	if got, want := appOf(pod.Spec), appOf(v.owner.Spec.Template.Spec); got != want || !w.isLabelled(pod) {
		w.Failf("revision", "Pod %s is created with %s as %s, want %s", pod.Name, got, pod.Labels[apps.LabelRevision], want)
	}
	if v.made++; v.made > v.burst() {
		w.Failf("burst", "Pod %s is the %d. in a pass, %d may be created", pod.Name, v.made, v.burst())
	}
	var old []*corev1.Pod // running on the Node
	for _, other := range faultapi.All[*corev1.Pod](w.Server) {
		seen := v.pods[other.UID]
		if other.UID == pod.UID || nodeOf(other) != p.Name || !w.isOurs(other) || seen != nil && nodeOf(seen) == "" {
			continue
		}
		if seen != nil && seen.DeletionTimestamp != nil && podstate.HasEnded(seen) {
			continue
		}
		running := seen == nil || runs(seen)
		if v.surge() == 0 && (running || seen.DeletionTimestamp != nil || len(p.pods) > 1) || running && !v.isOutdated(other) {
			w.Failf("twins", "Pod %s is created on Node %s beside %s", pod.Name, p.Name, other.Name)
		}
		if running {
			old = append(old, seen)
		}
	}
	switch len(old) {
	case 0:
		w.judgeFirst(v, p, pod)
	case 1:
		w.judgeSurge(v, p, pod, old[0])
	default:
		w.Failf("twins", "Pod %s is created on Node %s beside %d others", pod.Name, p.Name, len(old))
	}
}

// judgeFirst checks the order in which Nodes get their first Pods if the partition limits the creation of Pods. The
// order must be the order of an update.
func (w *story) judgeFirst(v *sight, p *place, pod *corev1.Pod) {
	partition := v.partition()
	if scale := v.owner.Spec.ScaleStrategy; scale == nil || !scale.PartitionedScaling || partition == 0 || v.onDelete() {
		return
	}
	if v.surge() == 0 && v.holdsNewest(p) { // the Pod has ended, and is replaced
		return
	}
	v.first++
	updated, before := 0, 0
	for _, other := range v.places {
		switch {
		case other.run && v.holdsNewest(other):
			updated++
		case other.run && len(other.pods) == 0 && other.Name < p.Name:
			before++
		}
	}
	if most := v.desired() - partition - updated; v.first > most || before >= most {
		w.Failf("progress", "Pod %s is the %d. on a Node without one, of %d that may be; %d before Node %s have none", pod.Name, v.first, most, before, p.Name)
	}
}

// judgeSurge checks that the controller creates a second Pod on a Node only for an update, and only on as many Nodes
// as maxSurge allows.
func (w *story) judgeSurge(v *sight, p *place, pod, old *corev1.Pod) {
	if waits(old) {
		return // the waiting Pod is deleted in any case, so the limits do not matter
	}
	w.judgeTurn(v, p, old)
	if !v.isAvailable(old) {
		return
	}
	v.beside++
	surging := v.beside
	for _, other := range v.kept() {
		if len(other.running) > 1 {
			surging++
		}
	}
	if surging > v.surge() {
		w.Failf("surge", "Pod %s is created beside %s, which makes it %d Nodes with two, of %d that may be", pod.Name, old.Name, surging, v.surge())
	}
}

// judgeTurn checks that the controller updates this Pod in the right order and within the partition.
func (w *story) judgeTurn(v *sight, p *place, pod *corev1.Pod) {
	switch ru := v.rolling(); {
	case v.onDelete() || ptr.Deref(ru.Paused, false):
		w.Failf("paused", "Pod %s is updated", pod.Name)
	case !v.isOutdated(pod):
		w.Failf("reason", "Pod %s is updated, which is at the newest revision", pod.Name)
	case p.excluded:
		w.Failf("selector", "Pod %s is updated on Node %s, which %v excludes", pod.Name, p.Name, ru.Selector)
	case !slices.Contains(v.kept(), p):
		w.Failf("partition", "Pod %s is updated on Node %s, beyond the partition of %d", pod.Name, p.Name, v.partition())
	}
}

func (w *story) judgeChange(v *sight, x *chaos.Write, before, after *corev1.Pod) {
	seen := v.pods[before.UID]
	if seen == nil {
		w.Failf("unseen", "%s of Pod %s, which the pass had not seen", x.Call.Verb, before.Name)
	}
	deletes := x.Call.Verb == "delete"
	removes := deletes || waits(after) && !waits(before)
	updates := !deletes && (closes(before, after) || appOf(before.Spec) != appOf(after.Spec))
	if !deletes && after.Labels[apps.LabelRevision] != before.Labels[apps.LabelRevision] && !w.isLabelled(after) {
		w.Failf("revision", "Pod %s with %s is labelled %s", after.Name, appOf(after.Spec), after.Labels[apps.LabelRevision])
	}
	if !removes && !updates {
		return
	}
	if v.touched[seen.UID] = true; len(v.touched) > v.burst() {
		w.Failf("burst", "%s of Pod %s is that of the %d. in a pass, %d may be changed", x.Call.Verb, seen.Name, len(v.touched), v.burst())
	}
	if deletes && w.hooks && seen.Labels[holdDelete] != "" {
		w.Failf("hook", "Pod %s is deleted, which is held", seen.Name)
	}
	p := v.byName[nodeOf(seen)]
	if !removes || !w.mayGo(v, p, seen, x.Task.Process.Start) {
		w.judgeUpdate(v, p, seen)
	}
}

// mayGo reports whether the controller has a reason besides an update to delete a Pod.
func (w *story) mayGo(v *sight, p *place, pod *corev1.Pod, process int) bool {
	if nodeOf(pod) == "" || pod.DeletionTimestamp != nil || pod.Labels["app"] != "web" {
		w.Failf("reason", "Pod %s is deleted, which is on no Node, terminates or is not selected", pod.Name)
	}
	switch {
	case p == nil: // the Node was deleted
		if pod.Spec.NodeName != "" {
			w.Failf("lost", "Pod %s is deleted, which is on a Node that is gone", pod.Name)
		}
		return true
	case !p.stay:
		return true
	case waits(pod): // the update has begun
		return true
	case !podstate.IsActive(pod):
		w.judgeEnding(v, endings{process, p.Name, v.owner.Generation}, pod)
		return true
	}
	group := p.running
	if v.surge() > 0 {
		if group = p.newest; v.isOutdated(pod) {
			group = p.old
		}
	}
	if slices.ContainsFunc(group, func(other *corev1.Pod) bool { return !waits(other) && byAge(other, pod) < 0 }) {
		return true // one older Pod is enough
	}
	if v.isUnfit(p, pod) {
		return true
	}
	// Of two Pods on a Node, the old Pod may be deleted if the new Pod is available or the old Pod is not.
	return v.surge() > 0 && v.isOutdated(pod) && len(p.newest) > 0 && (slices.ContainsFunc(p.newest, v.isAvailable) || !podstate.IsReady(pod))
}

// judgeEnding checks that if Pods on a Node end again and again, the pauses between replacements grow.
func (w *story) judgeEnding(v *sight, key endings, pod *corev1.Pod) {
	const most = 15 * time.Minute
	last, again := w.ended[key]
	if last.pass == v {
		return // there were several Pods
	}
	if again && v.now.Before(last.next) {
		w.Failf("back-off", "Pod %s is deleted, which has ended, %v before it may be", pod.Name, last.next.Sub(v.now))
	}
	wait := time.Second
	if again && v.now.Sub(last.next) <= most {
		wait = min(2*last.wait, most)
	}
	w.ended[key] = ending{v.now.Add(wait), wait, v}
}

// judgeUpdate checks that the controller takes a Pod out of service for an update only if the Pod is next in the
// update order, and if enough Pods are available.
func (w *story) judgeUpdate(v *sight, p *place, pod *corev1.Pod) {
	if p == nil {
		w.Failf("reason", "Pod %s is updated without a Node", pod.Name)
	}
	w.judgeTurn(v, p, pod)
	if v.surge() > 0 {
		w.Failf("surge", "Pod %s is taken out of service, and no other serves Node %s", pod.Name, p.Name)
	}
	if !v.isAvailable(pod) || v.taken[p.Name] {
		return
	}
	v.taken[p.Name] = true
	down := 0
	for _, other := range v.kept() {
		if !v.serves(other) {
			down++
		}
	}
	if down > v.most() {
		w.Failf("budget", "without Pod %s, %d of the Nodes that are updated lack an available Pod, %d may", pod.Name, down, v.most())
	}
}

func (w *story) appOfRevision(rev *appsv1.ControllerRevision) string {
	content, err := revision.Decode(rev)
	w.must(err)
	return appOf(content.Template.Spec)
}

// revisionOf returns the revision that a label names.
func (w *story) revisionOf(label string) *appsv1.ControllerRevision {
	for _, rev := range faultapi.All[*appsv1.ControllerRevision](w.Server) {
		if revision.Same(label, rev.Name) {
			return rev
		}
	}
	return nil
}

func (w *story) knows(label string) bool { return w.revisionOf(label) != nil }

// isLabelled reports whether a Pod equals the template of the revision in its label.
func (w *story) isLabelled(pod *corev1.Pod) bool {
	rev := w.revisionOf(pod.Labels[apps.LabelRevision])
	return rev != nil && w.appOfRevision(rev) == appOf(pod.Spec)
}

// converged checks that each fitting Node has an available Pod at the wanted revision, and no further Pods exist.
func (w *story) converged() {
	set := w.owner()
	if w.senseless {
		if !faulttest.IsTold(set, set.Status.ObservedGeneration, set.Status.Conditions) {
			w.Failf("told", "nobody is told of the senseless spec of generation %d: %+v", set.Generation, set.Status)
		}
		return
	}
	v := &sight{
		owner: set, now: time.Now(), pods: map[types.UID]*corev1.Pod{}, prune: w.prune, known: w.knows, taken: map[string]bool{},
	}
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !w.isOurs(pod) {
			continue
		}
		v.pods[pod.UID] = pod
		if !v.isAvailable(pod) {
			w.Failf("converged", "Pod %s on Node %q is not available: ready %t, state %q, deleted %v",
				pod.Name, nodeOf(pod), podstate.IsReady(pod), pod.Labels[apps.LabelLifecycleState], pod.DeletionTimestamp)
		}
	}
	var nodes []corev1.Node
	for _, node := range faultapi.All[*corev1.Node](w.Server) {
		nodes = append(nodes, *node)
	}
	v.arrange(nodes)
	ru := v.rolling()
	w.agents.Converged(set, set.Status.Conditions, slices.Collect(maps.Values(v.pods)), v.partition() == 0 && ru.Selector == nil && v.surge() == 0)
	w.convergedRevisions(v, w.convergedNodes(v))
	w.convergedStatus(v)
	if n := w.reconciler.fits.Len(); n > 1 {
		w.Failf("memory", "the requirements of %d DaemonSets are kept, where there is one", n)
	}
}

// convergedNodes returns how many Nodes lack a Pod for a valid reason.
func (w *story) convergedNodes(v *sight) (missing int) {
	on, updated := 0, 0
	for _, p := range v.places {
		on += len(p.pods)
		if len(p.pods) > 1 || len(p.pods) > 0 && !p.stay {
			w.Failf("converged", "Node %s has %d Pods, may have one: %t", p.Name, len(p.pods), p.stay)
		}
		if p.run && len(p.pods) == 0 {
			missing++
		}
		if p.run && len(p.newest) > 0 {
			updated++
		}
	}
	if on != len(v.pods) {
		w.Failf("converged", "%d of %d Pods are on Nodes", on, len(v.pods))
	}
	scale := v.owner.Spec.ScaleStrategy
	waits := scale != nil && scale.PartitionedScaling && !v.onDelete() && v.partition() > 0 && updated >= v.desired()-v.partition()
	if missing > 0 && !waits {
		w.Failf("converged", "%d Nodes have no Pod; %d of %d have one at the newest revision, partition %d", missing, updated, v.desired(), v.partition())
	}
	return missing
}

// convergedRevisions checks that no Pod that must be updated is outdated, and the history is within its limit.
func (w *story) convergedRevisions(v *sight, missing int) {
	used := map[string]bool{}
	for _, pod := range v.pods {
		if label := pod.Labels[apps.LabelRevision]; v.isOutdated(pod) {
			used[label] = w.knows(label)
		} else if label != v.owner.Status.UpdateRevision {
			w.Failf("converged", "Pod %s is at revision %s, the newest is %s", pod.Name, label, v.owner.Status.UpdateRevision)
		}
	}
	// A Node with an unwanted Pod counts for the partition of updates, but not for the partition that limits the
	// creation of Pods. So a Node may lack its Pod for a valid reason, and the missing Pod may delay updates on other
	// Nodes.
	unfit := slices.ContainsFunc(v.places, func(p *place) bool { return !p.run && len(p.pods) > 0 })
	if !v.onDelete() && (missing == 0 || !unfit) {
		for _, p := range v.kept() {
			if len(p.old) > 0 {
				w.Failf("converged", "Pod %s on Node %s was not updated: %s, partition %d", p.old[0].Name, p.Name, appOf(p.old[0].Spec), v.partition())
			}
		}
	}
	for _, p := range v.places {
		if missing == 0 && len(p.old) > 0 && v.isUnfit(p, p.old[0]) {
			w.Failf("converged", "Pod %s stays on Node %s, which is to have none", p.old[0].Name, p.Name)
		}
	}
	newest, all := 0, faultapi.All[*appsv1.ControllerRevision](w.Server)
	for _, rev := range all {
		if w.appOfRevision(rev) == appOf(v.owner.Spec.Template.Spec) {
			newest++
		}
	}
	if most := max(len(used), int(*v.owner.Spec.RevisionHistoryLimit)); newest != 1 || len(all) > 1+most {
		w.Failf("converged", "%d revisions, %d of them of the template, %d others in use", len(all), newest, len(used))
	}
}

func (w *story) convergedStatus(v *sight) {
	s := v.owner.Status
	var have, updated, misscheduled int32
	for _, p := range v.places {
		switch {
		case len(p.pods) == 0:
		case !p.run:
			misscheduled++
		default:
			have++
			updated += int32(len(p.newest))
		}
	}
	desired := int32(v.desired())
	if s.DesiredNumberScheduled != desired || s.CurrentNumberScheduled != have || s.NumberReady != have || s.NumberAvailable != have ||
		s.NumberUnavailable != desired-have || s.UpdatedNumberScheduled != updated || s.NumberMisscheduled != misscheduled || s.ObservedGeneration != v.owner.Generation {
		w.Failf("converged", "status %+v; %d desired, %d there, %d updated, %d on other Nodes", s, desired, have, updated, misscheduled)
	}
	// Old Pods on Nodes that updates leave out stay until the partition is 0.
	held := v.prune && v.partition() > 0 && slices.ContainsFunc(v.places, func(p *place) bool { return !p.run && len(p.old) > 0 })
	s.Conditions = slices.Clone(s.Conditions)
	s.Conditions.Drop(apps.ConditionContainersRestarted)
	if len(s.Conditions) > 0 && (!held || s.Conditions[0].Reason != string(rollout.UnfitLimited)) {
		w.Failf("converged", "conditions %+v", s.Conditions)
	}
}
