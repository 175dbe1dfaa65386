package forecast

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// Of returns the report about an input.
func Of(in *Input) *Report {
	f := newForecast(in)
	r := &Report{
		Object: in.Kind.Kind + " " + in.Name, Warnings: in.Warnings, Claims: f.claims(),
		Measured: Measured{Restart: text(in.Times.Restart), Create: text(in.Times.Create)},
	}
	r.Pods = f.pods()
	r.Batches = f.batches(r.Pods)
	for i := range r.Pods {
		if name := r.Pods[i].Name; r.Pods[i].Action != Keep {
			r.Pods[i].Batch = 1 + slices.IndexFunc(r.Batches, func(b Batch) bool { return slices.Contains(b.Pods, name) })
		}
	}
	r.Budgets = f.budgets()
	r.Outcome, r.Stops = f.stops()
	r.Takes = f.takes(r)
	return r
}

// forecast is an input with indexes.
type forecast struct {
	*Input
	before, after map[types.UID]*corev1.Pod
	taken         map[types.UID]time.Time // by Pod: when a controller took the Pod out of service, or created the Pod
	revisions     map[string]*appsv1.ControllerRevision
}

func newForecast(in *Input) *forecast {
	f := &forecast{
		Input: in, before: map[types.UID]*corev1.Pod{}, after: map[types.UID]*corev1.Pod{},
		taken: map[types.UID]time.Time{}, revisions: map[string]*appsv1.ControllerRevision{},
	}
	for _, pod := range in.Before.Pods {
		if f.concerns(pod, &in.Before) || f.concerns(pod, &in.After) {
			f.before[pod.UID] = pod
		}
	}
	for _, pod := range in.After.Pods {
		if f.concerns(pod, &in.After) {
			f.after[pod.UID] = pod
		}
	}
	for _, revisions := range [][]*appsv1.ControllerRevision{in.Before.Revisions, in.After.Revisions} {
		for _, revision := range revisions {
			f.revisions[revision.Name] = revision
		}
	}
	for i := range in.Writes {
		w := &in.Writes[i]
		takes := w.Verb == "delete" || w.Verb == "create" || w.Takes
		if _, known := f.taken[w.UID]; w.Resource == "pods" && takes && !known {
			f.taken[w.UID] = w.At
		}
	}
	return f
}

// concerns reports whether a Pod belongs to the changed object.
func (f *forecast) concerns(pod *corev1.Pod, s *Snapshot) bool {
	if f.Kind.Kind == "SidecarSet" {
		return slices.Contains(strings.Split(pod.Annotations[apps.AnnotationSidecarSetInjected], ","), f.Name)
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	return ref != nil && s.UID != "" && ref.UID == s.UID
}

// TakesOut reports whether a change of a Pod changes the Pod's spec or revision, or takes the Pod out of service by
// closing a readiness gate or by marking the Pod for deletion.
func TakesOut(before, after *corev1.Pod) bool {
	if !equality.Semantic.DeepEqual(before.Spec, after.Spec) || revisionOf(before) != revisionOf(after) {
		return true
	}
	for i := range after.Status.Conditions {
		c := &after.Status.Conditions[i]
		if !podstate.HasGate(after, c.Type) || c.Status == corev1.ConditionTrue {
			continue
		}
		if was := podstate.Condition(before, c.Type); was != nil && was.Status == corev1.ConditionTrue {
			return true
		}
	}
	return before.DeletionTimestamp == nil && after.DeletionTimestamp != nil
}

// revisionOf returns the revision label of a Pod.
func revisionOf(pod *corev1.Pod) string { return pod.Labels[apps.LabelRevision] }

// pods returns the fate of each Pod, in the order of the changes.
func (f *forecast) pods() []Pod {
	var gone, kept, made []*corev1.Pod
	for _, pod := range f.before {
		after := f.after[pod.UID]
		if after == nil || after.DeletionTimestamp != nil && pod.DeletionTimestamp == nil {
			gone = append(gone, pod)
		} else {
			kept = append(kept, pod)
		}
	}
	for _, pod := range f.after {
		if f.before[pod.UID] == nil {
			made = append(made, pod)
		}
	}
	for _, list := range [][]*corev1.Pod{gone, kept, made} {
		slices.SortFunc(list, f.inOrder)
	}
	var out []Pod
	successors := f.successors(gone, made)
	for _, pod := range gone {
		out = append(out, f.gone(pod, successors[pod.UID]))
	}
	for _, pod := range kept {
		out = append(out, f.kept(pod))
	}
	for _, pod := range made {
		if !isSuccessor(successors, pod) {
			out = append(out, Pod{Name: pod.Name, UID: string(pod.UID), Action: Create})
		}
	}
	slices.SortStableFunc(out, func(a, b Pod) int {
		return cmp.Or(keptLast(&a)-keptLast(&b), f.taken[types.UID(a.UID)].Compare(f.taken[types.UID(b.UID)]))
	})
	return out
}

// keptLast returns a greater number for Pods that are kept, so that these Pods come last.
func keptLast(p *Pod) int {
	if p.Action == Keep {
		return 1
	}
	return 0
}

// inOrder compares Pods by the time of their first change, then by name.
func (f *forecast) inOrder(a, b *corev1.Pod) int {
	return cmp.Or(f.taken[a.UID].Compare(f.taken[b.UID]), natural(a.Name, b.Name))
}

// natural compares names so that web-2 comes before web-10.
func natural(a, b string) int {
	return cmp.Or(cmp.Compare(len(a), len(b)), strings.Compare(a, b))
}

// successors finds the successor of each deleted Pod: a new Pod with the same name, or on the same Node for a
// DaemonSet, or else any new Pod. If there are too few new Pods, the Pods deleted first have no successor, because a
// workload reduces its replicas before its update.
func (f *forecast) successors(gone, made []*corev1.Pod) map[types.UID]*corev1.Pod {
	out, free := map[types.UID]*corev1.Pod{}, slices.Clone(made)
	take := func(pod *corev1.Pod, is func(*corev1.Pod) bool) {
		if i := slices.IndexFunc(free, is); out[pod.UID] == nil && i >= 0 {
			out[pod.UID] = free[i]
			free = slices.Delete(free, i, i+1)
		}
	}
	for _, pod := range gone {
		switch f.Kind.Kind {
		case "StatefulSet":
			take(pod, func(p *corev1.Pod) bool { return p.Name == pod.Name })
		case "DaemonSet":
			take(pod, func(p *corev1.Pod) bool { return p.Spec.NodeName == pod.Spec.NodeName })
		}
	}
	if f.Kind.Kind != "CloneSet" {
		return out
	}
	for _, pod := range slices.Backward(gone) {
		take(pod, func(*corev1.Pod) bool { return true })
	}
	return out
}

func isSuccessor(successors map[types.UID]*corev1.Pod, pod *corev1.Pod) bool {
	for _, s := range successors {
		if s.UID == pod.UID {
			return true
		}
	}
	return false
}

// gone describes a deleted Pod.
func (f *forecast) gone(pod, successor *corev1.Pod) Pod {
	p := Pod{Name: pod.Name, UID: string(pod.UID), Action: Delete}
	if successor == nil {
		return p
	}
	p.Action = Recreate
	if policy := f.recreates(); policy != nil && revisionOf(pod) != revisionOf(successor) {
		p.Reasons = reasonsOf(reason.List{*policy})
		return p
	}
	from, to := f.revision(revisionOf(pod)), f.revision(revisionOf(successor))
	if f.Blocking != nil && from != nil && to != nil && from.Name != to.Name {
		p.Reasons = reasonsOf(f.Blocking(from, to))
	}
	return p
}

// RecreateAsked means that the update strategy recreates Pods for every change.
const RecreateAsked reason.Code = "RecreateAsked"

// recreates returns the setting of the workload that recreates Pods for every change, or nil.
func (f *forecast) recreates() *reason.Reason {
	path := "spec.updateStrategy.rollingUpdate.podUpdatePolicy"
	policy := fields.String(f.After.Object, path)
	if f.Kind.Kind == "DaemonSet" {
		path = "spec.updateStrategy.rollingUpdate.rollingUpdateType"
		if policy = fields.String(f.After.Object, path); policy == "InPlaceIfPossible" {
			return nil
		}
		return &reason.Reason{Code: RecreateAsked, Path: path, New: cmp.Or(policy, "Standard")}
	}
	if policy == "InPlaceIfPossible" || policy == "InPlaceOnly" {
		return nil
	}
	return &reason.Reason{Code: RecreateAsked, Path: path, New: cmp.Or(policy, "ReCreate")}
}

// revision finds a revision by the label of a Pod, which contains the whole name or the hash.
func (f *forecast) revision(label string) *appsv1.ControllerRevision {
	if revision := f.revisions[label]; revision != nil {
		return revision
	}
	return f.revisions[f.Name+"-"+label]
}

// kept describes a Pod that stays.
func (f *forecast) kept(pod *corev1.Pod) Pod {
	after := f.after[pod.UID]
	p := Pod{Name: pod.Name, UID: string(pod.UID), Action: Keep}
	if revisionOf(pod) != revisionOf(after) || !equality.Semantic.DeepEqual(pod.Spec, after.Spec) {
		p.Action = InPlace
	}
	before := map[string]*corev1.ContainerStatus{}
	for _, list := range [][]corev1.ContainerStatus{pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses} {
		for i := range list {
			before[list[i].Name] = &list[i]
		}
	}
	for _, list := range [][]corev1.ContainerStatus{after.Status.InitContainerStatuses, after.Status.ContainerStatuses} {
		for i := range list {
			if was := before[list[i].Name]; was != nil && was.ContainerID != "" && was.ContainerID != list[i].ContainerID {
				p.Restarts = append(p.Restarts, list[i].Name)
			}
		}
	}
	for i := range pod.Spec.Containers {
		if i < len(after.Spec.Containers) && !equality.Semantic.DeepEqual(pod.Spec.Containers[i].Resources, after.Spec.Containers[i].Resources) {
			p.Resizes = append(p.Resizes, pod.Spec.Containers[i].Name)
		}
	}
	return p
}

// together is the longest time between the changes of two Pods of the same batch.
const together = time.Second

// batches groups the Pods that are not kept.
func (f *forecast) batches(pods []Pod) (out []Batch) {
	for i := range pods {
		if pods[i].Action == Keep {
			continue
		}
		after := max(f.taken[types.UID(pods[i].UID)].Sub(f.Began), 0)
		if n := len(out); n == 0 || after-out[n-1].After >= together {
			out = append(out, Batch{After: after})
		}
		last := &out[len(out)-1]
		last.Pods = append(last.Pods, pods[i].Name)
	}
	return out
}

// claims returns the claims that are created, grow, or are deleted.
func (f *forecast) claims() (out []Claim) {
	before := map[string]*corev1.PersistentVolumeClaim{}
	used := f.usedClaims()
	for _, claim := range f.Before.Claims {
		if f.isOwnClaim(claim, used) {
			before[claim.Namespace+"/"+claim.Name] = claim
		}
	}
	for _, claim := range f.After.Claims {
		if !f.isOwnClaim(claim, used) {
			continue
		}
		key := claim.Namespace + "/" + claim.Name
		was, size := before[key], claim.Spec.Resources.Requests[corev1.ResourceStorage]
		delete(before, key)
		switch {
		case was == nil || was.UID != claim.UID:
			if was != nil {
				out = append(out, Claim{Name: claim.Name, Action: "delete"})
			}
			out = append(out, Claim{Name: claim.Name, Action: "create", Detail: size.String()})
		case claim.DeletionTimestamp != nil && was.DeletionTimestamp == nil:
			out = append(out, Claim{Name: claim.Name, Action: "delete"})
		default:
			if old := was.Spec.Resources.Requests[corev1.ResourceStorage]; size.Cmp(old) > 0 {
				out = append(out, Claim{Name: claim.Name, Action: "grow", Detail: fmt.Sprintf("%s to %s", &old, &size)})
			}
		}
	}
	for _, claim := range before {
		out = append(out, Claim{Name: claim.Name, Action: "delete"})
	}
	slices.SortFunc(out, func(a, b Claim) int { return cmp.Or(strings.Compare(a.Action, b.Action), natural(a.Name, b.Name)) })
	return out
}

// usedClaims returns the names of the claims that the Pods of the changed object use.
func (f *forecast) usedClaims() map[string]bool {
	used := map[string]bool{}
	for _, pods := range []map[types.UID]*corev1.Pod{f.before, f.after} {
		for _, pod := range pods {
			for i := range pod.Spec.Volumes {
				if of := pod.Spec.Volumes[i].PersistentVolumeClaim; of != nil {
					used[pod.Namespace+"/"+of.ClaimName] = true
				}
			}
		}
	}
	return used
}

// isOwnClaim reports whether a claim belongs to the changed object: a Pod of the object uses the claim, the object or
// such a Pod owns the claim, or the claim has the name of a claim for a Pod of the StatefulSet.
func (f *forecast) isOwnClaim(claim *corev1.PersistentVolumeClaim, used map[string]bool) bool {
	if used[claim.Namespace+"/"+claim.Name] {
		return true
	}
	for i := range claim.OwnerReferences {
		uid := claim.OwnerReferences[i].UID
		if uid == f.Before.UID || uid == f.After.UID || f.before[uid] != nil || f.after[uid] != nil {
			return true
		}
	}
	base, _, isNumbered := ordinals.ParseName(claim.Name)
	if f.Kind.Kind != "StatefulSet" || !isNumbered {
		return false
	}
	for _, object := range []map[string]any{f.Before.Object, f.After.Object} {
		for _, template := range fields.List(object, "spec.volumeClaimTemplates") {
			if base == fields.String(template, "metadata.name")+"-"+f.Name {
				return true
			}
		}
	}
	return false
}

// budgets returns the state before the change of each budget that was written during the rollout and covers changed
// Pods.
func (f *forecast) budgets() (out []Budget) {
	written := map[string]bool{}
	for i := range f.Writes {
		if f.Writes[i].Resource == "podunavailablebudgets" {
			written[f.Writes[i].Namespace+"/"+f.Writes[i].Name] = true
		}
	}
	namespaces := map[string]bool{}
	for _, pod := range f.before {
		namespaces[pod.Namespace] = true
	}
	for _, b := range f.Before.Budgets {
		if !namespaces[b.Namespace] {
			continue
		}
		if written[b.Namespace+"/"+b.Name] {
			out = append(out, b)
		}
	}
	return out
}

// takes returns the duration of the rollout, computed from the measured times; empty if unknown.
func (f *forecast) takes(r *Report) string {
	unknown := r.Count(InPlace) > 0 && f.Times.Restart == nil || r.Count(Recreate)+r.Count(Create) > 0 && f.Times.Create == nil
	if unknown || len(r.Batches) == 0 || f.Endless {
		return ""
	}
	last := f.Began
	for i := range f.Writes {
		w := &f.Writes[i]
		isOwn := w.UID == f.Before.UID || w.UID == f.After.UID || f.before[w.UID] != nil || f.after[w.UID] != nil
		if w.UID != "" && isOwn && w.At.After(last) {
			last = w.At
		}
	}
	took := last.Sub(f.Began)
	return text(&took)
}

func text(d *time.Duration) string {
	if d == nil {
		return ""
	}
	return d.Round(time.Second).String()
}
