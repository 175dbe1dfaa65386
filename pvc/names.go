package pvc

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/reason"
)

// Names finds names for new Pods made from claim templates without fixed names. All fields but Claims and Leaving are
// required.
type Names struct {
	Known

	// Claims are the owner's.
	Claims []*corev1.PersistentVolumeClaim
	// Taken are the names of the owner's active Pods, and Leaving the names of the owner's remaining Pods.
	Taken, Leaving sets.Set[string]
	// MayReturn reports lost Pods that may be made again for their remaining claims.
	MayReturn func(pod string) bool
	// Fresh returns a random name. A foreign claim must not have the name of a claim of such a Pod: foreign claims are not
	// in Claims.
	Fresh func() string
}

// NameAwaited means that a Pod is to be made again under the name of a former Pod, for the claims of the former Pod,
// which is still on its way out.
const NameAwaited reason.Code = "NameAwaited"

// New returns names for up to n new Pods: first names of lost Pods with reusable claims, then fresh names that neither
// a Pod nor a claim has. New returns fewer than n names if the Pod of such claims is still on its way out: its
// successor is to have the same name. Zero and less ask for none.
func (x *Names) New(n int) []string {
	if n <= 0 {
		return nil
	}
	taken := x.Taken.Union(x.Leaving)
	names, awaited := x.reusable()
	taken.Insert(names...)
	taken.Insert(awaited...)
	n = max(n-len(awaited), min(n, len(names)))
	names = names[:min(len(names), n)]
	for _, claim := range x.Claims {
		taken.Insert(x.PodOf(claim))
	}
	for len(names) < n {
		name := x.Fresh()
		if _, exists := x.Pod(name); !exists && !taken.Has(name) {
			taken.Insert(name)
			names = append(names, name)
		}
	}
	return names
}

// Awaited says which Pods on their way out keep New from n names, nil if no Pod does.
func (x *Names) Awaited(n int) reason.List {
	names, awaited := x.reusable()
	short := min(n-len(names), len(awaited))
	if short <= 0 {
		return nil
	}
	why := reason.Reason{
		Code: NameAwaited, Object: reason.Object{Kind: "Pod", Name: awaited[0]}, Remedy: "wait until it is gone, or have claims not used again",
		Detail: fmt.Sprintf("Pods that wait until the former ones of their names are gone, whose claims they are to have: %d", short),
	}
	if pod, exists := x.Pod(awaited[0]); exists {
		if why.Object = reason.ObjectOf("Pod", pod); len(pod.Finalizers) > 0 {
			why.Detail += "; the first has finalizers " + strings.Join(pod.Finalizers, ", ")
		}
	}
	return reason.List{why}
}

// reusable returns the names of lost Pods with reusable claims: names free now, and names of Pods on their way out.
func (x *Names) reusable() (names, awaited []string) {
	for _, name := range x.Reusable(x.Claims, x.MayReturn) {
		pod, exists := x.Pod(name)
		switch {
		case !exists && !x.Taken.Has(name) && !x.Leaving.Has(name):
			names = append(names, name)
		case !exists && x.Leaving.Has(name): // the Pod has gone since the caller looked, and its event is about to wake the owner
			awaited = append(awaited, name)
		case exists && pod.DeletionTimestamp != nil && x.isOwned(pod):
			awaited = append(awaited, name)
		}
	}
	return names, awaited
}
