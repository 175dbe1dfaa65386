package forecast

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/workloadkit/workloadkit/examples/cli/cause"
	"github.com/workloadkit/workloadkit/examples/cli/progress"
	"github.com/workloadkit/workloadkit/reason"
)

// These are reasons why a rollout does not continue, in addition to the reasons of package cause.
const (
	// PartitionHolds means that a partition keeps Pods at the old revision.
	PartitionHolds reason.Code = "PartitionHolds"
	// Endless means that the controllers did not stop writing.
	Endless reason.Code = "Endless"
	// ReconcileFails means that the controller's last reconcile has failed.
	ReconcileFails reason.Code = "ReconcileFails"
)

// stops returns the state in which the rollout ends, and the reasons why the rollout is not complete.
func (f *forecast) stops() (outcome string, out []Stop) {
	if f.Endless {
		return "the controllers do not come to rest", []Stop{{Code: string(Endless), Detail: "the same writes would come again and again"}}
	}
	if f.After.Object == nil {
		return "the object does not exist", nil
	}
	u := &unstructured.Unstructured{Object: f.After.Object}
	p, err := progress.Of(u, 0, f.Ended)
	if err != nil {
		return err.Error(), nil
	}
	if outcome = p.Text; p.State != progress.Done {
		out = f.causes(u, p)
	} else if f.outdated() > 0 && strings.Contains(p.Text, "partition") {
		out = append(out, Stop{Code: string(PartitionHolds), Object: f.Kind.Kind + " " + f.Name, Detail: "a partition keeps Pods at the old revision", Ends: "a smaller partition"})
	}
	return outcome, out
}

// causes returns the reasons why the object waits at the end.
func (f *forecast) causes(u *unstructured.Unstructured, p progress.Progress) (out []Stop) {
	facts := cause.Facts{Object: u, Now: f.Ended}
	for _, pod := range f.After.Pods {
		if f.after[pod.UID] != nil {
			facts.Pods = append(facts.Pods, *pod)
		}
	}
	for _, c := range cause.Of(facts) {
		out = append(out, Stop{Code: string(c.Code), Object: c.Object.String(), Detail: strings.TrimPrefix(c.Path+": "+c.Detail, ": "), Ends: c.Remedy, Pods: c.Pods})
	}
	if len(out) == 0 {
		for _, why := range p.Why {
			out = append(out, Stop{Code: string(why.Code), Object: f.Kind.Kind + " " + f.Name, Detail: strings.TrimPrefix(why.Path+": "+why.Detail, ": "), Ends: why.Remedy})
		}
	}
	return append(out, f.failures(out)...)
}

// failures returns the errors of the object's last reconciles, without errors that the text of a known reason already
// contains.
func (f *forecast) failures(known []Stop) (out []Stop) {
	for task, message := range f.Failures {
		_, object, _ := strings.Cut(task, " ")
		_, name, namespaced := strings.Cut(object, "/")
		if name = cmp.Or(name, object); namespaced && name != f.Name {
			continue
		}
		if !slices.ContainsFunc(known, func(s Stop) bool { return strings.Contains(message, s.Detail) }) {
			out = append(out, Stop{Code: string(ReconcileFails), Object: object, Detail: message})
		}
	}
	slices.SortFunc(out, func(a, b Stop) int { return strings.Compare(a.Object+a.Detail, b.Object+b.Detail) })
	return out
}

// outdated returns the number of Pods that are still at their old revision at the end.
func (f *forecast) outdated() (n int) {
	for _, pod := range f.after {
		if before := f.before[pod.UID]; before != nil && revisionOf(before) == revisionOf(pod) && pod.Status.Phase != corev1.PodFailed {
			n++
		}
	}
	return n
}
