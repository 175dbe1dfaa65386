package pvc

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/reason"
)

// Names chooses names for new Pods that are made from claim templates and have no fixed names. All fields but Claims
// and Leaving are required.
type Names struct {
	Known

	// Claims are the owner's claims.
	Claims []*corev1.PersistentVolumeClaim
	// Taken are the names of the owner's active Pods, and Leaving the names of all other Pods of the owner.
	Taken, Leaving sets.Set[string]
	// MayReturn reports whether a Pod that no longer exists may be created again because of its remaining claims.
	MayReturn func(pod string) bool
	// Fresh returns a random name. Fresh must avoid names for which a claim of another owner exists: Claims does not
	// contain such claims.
	Fresh func() string
}

// NameAwaited means that a new Pod needs the name of an earlier Pod, whose claims exist, and the earlier Pod is still
// terminating.
const NameAwaited reason.Code = "NameAwaited"

// New returns names for up to n new Pods: first the names of former Pods whose claims can be used again, then random
// names that neither a Pod nor a claim has. New returns fewer than n names if a Pod whose claims can be used again is
// still terminating: the new Pod needs the same name. If n is zero or less, New returns none.
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

// Awaited returns a reason for each terminating Pod because of which New returns fewer than n names; nil if there are
// none.
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

// reusable returns the names of former Pods whose claims can be used again: names free now, and names of Pods still
// terminating.
func (x *Names) reusable() (names, awaited []string) {
	for _, name := range x.Reusable(x.Claims, x.MayReturn) {
		pod, exists := x.Pod(name)
		switch {
		case !exists && !x.Taken.Has(name) && !x.Leaving.Has(name):
			names = append(names, name)
		// The Pod was deleted after the caller had filled Leaving, and the event of the deletion will enqueue the
		// owner.
		case !exists && x.Leaving.Has(name):
			awaited = append(awaited, name)
		case exists && pod.DeletionTimestamp != nil && x.isOwned(pod):
			awaited = append(awaited, name)
		}
	}
	return names, awaited
}
