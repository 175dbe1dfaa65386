package workloadspread

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/ownercache"
)

// listed contains the kinds that the manager's configuration allows as targets. The zero value allows no kinds.
type listed struct {
	list *workloads.List

	mu      sync.Mutex
	targets []api.Target
}

// follow returns the kinds that a manager's configuration lists, and keeps the list up to date.
func follow(ctx context.Context, mgr ctrl.Manager, namespace string) (*listed, error) {
	l := &listed{}
	var err error
	l.list, err = workloads.Follow(ctx, mgr, workloads.Source{
		Namespace: namespace, Name: apps.ConfigurationName,
		Parse: func(data map[string]string) (kinds []schema.GroupVersionKind, err error) {
			targets, err := api.ParseTargets(data[apps.ConfigurationSpreadTargets])
			for i := range targets {
				kinds = append(kinds, targets[i].GroupVersionKind)
			}
			if err == nil || len(targets) > 0 { // if no entry is valid, a user may be in the middle of an edit
				l.mu.Lock()
				defer l.mu.Unlock()
				l.targets = targets
			}
			return kinds, err
		},
	})
	return l, err
}

// now returns the targets that are listed at present.
func (l *listed) now() []api.Target {
	if l.list == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(l.targets), func(t api.Target) bool {
		is, _ := l.list.Lists(t.GroupKind()) // the zero Target if the ConfigMap was deleted meanwhile
		return !is
	})
}

// targetOf returns the target for a kind; false if WorkloadSpreads may not have targets of this kind.
func (l *listed) targetOf(kind schema.GroupKind) (api.Target, bool) {
	if target, ok := api.BuiltIn(kind); ok {
		return target, true
	}
	for _, target := range l.now() {
		if target.GroupKind() == kind {
			return target, true
		}
	}
	return api.Target{}, false
}

// isBetween reports whether an object of a kind can be owned by a target, directly or through further owners, and own
// Pods of the target, as a ReplicaSet of a Deployment does.
func (l *listed) isBetween(kind schema.GroupKind) bool {
	return slices.ContainsFunc(l.now(), func(t api.Target) bool {
		return slices.ContainsFunc(t.SubResources, func(between schema.GroupVersionKind) bool { return between.GroupKind() == kind })
	})
}

// These are the names of indexes. Other packages use other prefixes.
const (
	byTarget     = "workloadkit/workloadspread-target"
	byController = "workloadkit/workloadspread-controller"
)

// finder finds the WorkloadSpread of a Pod, and the Pods of a target. A finder is safe for concurrent use.
type finder struct {
	*listed

	spreads     *ownercache.Index[*v1beta1.WorkloadSpread]
	pods        *ownercache.Index[*corev1.Pod]
	replicaSets *ownercache.Index[*appsv1.ReplicaSet]
	cloneSets   *ownercache.Index[*v1beta1.CloneSet]
	owners      *workloads.Owners
	numbered    *workloads.Numbered
	live        client.Reader
	clock       clock.PassiveClock

	mu     sync.Mutex
	recent map[string]recently
	read   map[types.UID]reading
}

// reading is a parsed spec, which is parsed once and used for each new Pod. A reading must not be modified.
type reading struct {
	generation int64
	settings   *settings
	isUsable   bool
}

// newFinder returns a finder that reads from the manager's caches. Call newFinder before the caches start.
func newFinder(ctx context.Context, mgr ctrl.Manager, c client.Client, kinds *listed, gates map[apps.Gate]bool, now clock.PassiveClock) (*finder, error) {
	f := &finder{listed: kinds, live: mgr.GetAPIReader(), clock: now, recent: map[string]recently{}, read: map[types.UID]reading{}}
	var errs [6]error
	f.spreads, errs[0] = ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.WorkloadSpread{})
	f.pods, errs[1] = ownercache.NewIndex(ctx, mgr.GetCache(), &corev1.Pod{})
	f.replicaSets, errs[2] = ownercache.NewIndex(ctx, mgr.GetCache(), &appsv1.ReplicaSet{})
	f.cloneSets, errs[3] = ownercache.NewIndex(ctx, mgr.GetCache(), &v1beta1.CloneSet{})
	f.owners, errs[4] = workloads.NewOwners(ctx, mgr, c, now)
	always := func(schema.GroupVersionKind) bool { return true }
	// No other kinds have numbered Pods.
	f.numbered, errs[5] = workloads.NewNumbered(ctx, mgr, nil, always, gates[apps.GateStatefulSetStartOrdinal])
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return f, errors.Join(
		f.spreads.Ensure(byTarget, func(spread *v1beta1.WorkloadSpread) []string {
			kind, name := targetIn(&spread.Spec)
			return []string{keyOf(kind, spread.Namespace, name)}
		}),
		f.pods.Ensure(byController, func(pod *corev1.Pod) []string {
			ref := controllerOf(pod)
			if ref.Name == "" {
				return nil
			}
			return []string{keyOf(ref.GroupKind, pod.Namespace, ref.Name), keyOf(ref.GroupKind, pod.Namespace, "")}
		}),
		f.replicaSets.Ensure(byController, func(set *appsv1.ReplicaSet) []string {
			ref := controllerOf(set)
			return []string{keyOf(ref.GroupKind, set.Namespace, ref.Name)}
		}),
	)
}

func keyOf(kind schema.GroupKind, namespace, name string) string {
	return kind.String() + "/" + namespace + "/" + name
}

func controllerOf(object metav1.Object) workloads.Ref {
	owner := metav1.GetControllerOfNoCopy(object)
	if owner == nil {
		return workloads.Ref{}
	}
	return workloads.RefOf(owner.APIVersion, owner.Kind, owner.Name)
}

// recently is a result from the API server that is remembered for a short time.
type recently struct {
	at     time.Time
	answer any
}

const (
	// fresh is how long a result from the API server is remembered, because many Pods of a workload are created at the
	// same moment.
	fresh = 2 * time.Second
	// mostRecent is the largest number of entries of two caches: of results from the API server, and of parsed specs.
	mostRecent = 1000
)

// asked returns the remembered result of a request to the API server, or calls ask. question identifies the request.
func asked[T any](f *finder, question string, ask func() (T, error)) (T, error) {
	now := f.clock.Now()
	f.mu.Lock()
	last, ok := f.recent[question]
	f.mu.Unlock()
	if answer, is := last.answer.(T); ok && is && now.Sub(last.at) < fresh {
		return answer, nil
	}
	answer, err := ask()
	if err != nil {
		return answer, err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.recent) >= mostRecent {
		clear(f.recent)
	}
	f.recent[question] = recently{now, answer}
	return answer, nil
}

// deepest is the largest number of controllers above a Pod that are read: the Pod's controller, the controller's
// controller, and so on.
const deepest = 5

// above returns the controllers above a Pod: the Pod's controller, the controller's controller, and so on. A
// controller that the cache does not show may be new, and is read from the API server.
func (f *finder) above(ctx context.Context, pod *corev1.Pod) ([]workloads.Ref, error) {
	chain, known := f.owners.Above(pod)
	for n := len(chain); n > 0 && n < deepest && (!known || f.isBetween(chain[n-1].GroupKind)); n++ {
		of := chain[n-1]
		next, err := asked(f, "controller of "+keyOf(of.GroupKind, pod.Namespace, of.Name), func() (workloads.Ref, error) {
			object := &metav1.PartialObjectMetadata{}
			object.SetGroupVersionKind(of.WithVersion(of.Version))
			err := f.live.Get(ctx, client.ObjectKey{Namespace: pod.Namespace, Name: of.Name}, object)
			if isAbsent(err) {
				return workloads.Ref{}, nil
			}
			return controllerOf(object), err
		})
		if err != nil {
			return nil, fmt.Errorf("reading %s %s/%s: %w", of.Kind, pod.Namespace, of.Name, err)
		}
		if next.Name == "" {
			break
		}
		chain, known = append(chain, next), true
	}
	return chain, nil
}

// isAbsent reports whether an error means that an object, or its kind, does not exist. The error Forbidden counts as
// well, because any user can write owner references to a kind that this manager may not read.
func isAbsent(err error) bool {
	return apierrors.IsNotFound(err) || apimeta.IsNoMatchError(err) || apierrors.IsForbidden(err)
}

// of returns the WorkloadSpread of a Pod, or nil. If there are several, the oldest is returned.
func (f *finder) of(ctx context.Context, pod *corev1.Pod) (found *v1beta1.WorkloadSpread, err error) {
	if len(f.spreads.In(pod.Namespace)) == 0 {
		return nil, nil
	}
	chain, err := f.above(ctx, pod)
	if err != nil {
		return nil, err
	}
	for _, spread := range f.named(pod.Namespace, chain...) {
		if s, ok := f.settingsOf(spread); ok && s.selector.Matches(labels.Set(pod.Labels)) && (found == nil || isOlder(spread, found)) {
			found = spread
		}
	}
	return found, nil
}

func isOlder(a, b *v1beta1.WorkloadSpread) bool {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name)) < 0
}

// named returns the WorkloadSpreads whose target is one of the workloads.
func (f *finder) named(namespace string, of ...workloads.Ref) (found []*v1beta1.WorkloadSpread) {
	for _, ref := range of {
		found = append(found, f.spreads.By(byTarget, keyOf(ref.GroupKind, namespace, ref.Name))...)
	}
	return found
}

// settingsOf returns the parsed spec of a WorkloadSpread. If ok is false, no Pod may be assigned to a subset.
func (f *finder) settingsOf(spread *v1beta1.WorkloadSpread) (s *settings, ok bool) {
	r := f.readingOf(spread)
	if spread.DeletionTimestamp != nil || !r.isUsable {
		return r.settings, false
	}
	_, ok = f.targetOf(r.settings.kind)
	return r.settings, ok
}

func (f *finder) readingOf(spread *v1beta1.WorkloadSpread) reading {
	f.mu.Lock()
	r, ok := f.read[spread.UID]
	f.mu.Unlock()
	if ok && r.generation == spread.Generation {
		return r
	}
	s, problems, _ := resolve(&spread.Spec)
	r = reading{spread.Generation, s, problems == nil}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.read) >= mostRecent {
		clear(f.read)
	}
	f.read[spread.UID] = r
	return r
}

// replicas returns the number of wanted Pods, or nil if the number is unknown. If no maximum is a percentage, the
// number is not needed, and nil is returned.
func (f *finder) replicas(ctx context.Context, namespace string, s *settings) (*int, error) {
	if !s.scaled {
		return nil, nil
	}
	target, _ := f.targetOf(s.kind)
	paths := s.paths
	if steps, ok := api.Steps(target.ReplicasPath); ok && len(paths) == 0 && !f.owners.Knows(s.kind) {
		paths = [][]string{steps}
	}
	if len(paths) == 0 {
		n, known := f.owners.Expected(ctx, namespace, workloads.Ref{GroupKind: s.kind, Version: target.Version, Name: s.name})
		if !known {
			return nil, nil
		}
		return new(int(n)), nil
	}
	question := fmt.Sprint("number of ", keyOf(s.kind, namespace, s.name), paths)
	return asked(f, question, func() (*int, error) {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(target.GroupVersionKind)
		err := f.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: s.name}, object)
		switch {
		case apierrors.IsNotFound(err):
			return new(0), nil
		case isAbsent(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("reading %s %s/%s: %w", s.kind.Kind, namespace, s.name, err)
		}
		n, err := sumOf(object.Object, paths)
		if err != nil {
			return nil, nil //nolint:nilerr // reported as ReplicasUnknown
		}
		return new(int(n)), nil
	})
}

// wanted returns the wanted ordinals of a target with numbered Pods; the zero Set if the ordinals are unknown.
func (f *finder) wanted(ctx context.Context, namespace string, s *settings) (ordinals.Set, error) {
	workload, _ := f.numbered.Get(s.kind, namespace, s.name)
	if workload == nil { // the cache may not show a new workload yet
		var err error
		if workload, err = f.numbered.Read(ctx, s.kind, namespace, s.name); err != nil || workload == nil {
			return ordinals.Set{}, err
		}
	}
	return workload.Wanted, nil
}

// podsOf returns the Pods of a target.
func (f *finder) podsOf(ctx context.Context, namespace string, s *settings) ([]*corev1.Pod, error) {
	key := keyOf(s.kind, namespace, s.name)
	pods := f.pods.By(byController, key)
	for _, set := range f.replicaSets.By(byController, key) {
		pods = append(pods, f.pods.Of(namespace, set.UID)...)
	}
	target, _ := f.targetOf(s.kind)
	for _, between := range target.SubResources {
		if between.GroupKind() == (schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}) {
			continue // these ReplicaSets were read above
		}
		for _, pod := range f.pods.By(byController, keyOf(between.GroupKind(), namespace, "")) {
			chain, err := f.above(ctx, pod)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(chain, func(ref workloads.Ref) bool { return ref.GroupKind == s.kind && ref.Name == s.name }) {
				pods = append(pods, pod)
			}
		}
	}
	return pods, nil
}

// latest returns the version of the target's new Pods; empty if the version is unknown.
func (f *finder) latest(namespace string, s *settings) string {
	switch key := keyOf(s.kind, namespace, s.name); s.kind {
	case schema.GroupKind{Group: "apps", Kind: "ReplicaSet"}:
		if set, ok := f.replicaSets.Get(namespace, s.name); ok {
			return set.Labels[apps.LabelPodTemplateHash]
		}
	case schema.GroupKind{Group: "apps", Kind: "Deployment"}:
		newest, hash := -1, ""
		for _, set := range f.replicaSets.By(byController, key) {
			if n, err := strconv.Atoi(set.Annotations[annotationRevision]); err == nil && n > newest {
				newest, hash = n, set.Labels[apps.LabelPodTemplateHash]
			}
		}
		return hash
	case schema.GroupKind{Group: apps.Group, Kind: "CloneSet"}:
		if set, ok := f.cloneSets.Get(namespace, s.name); ok && set.Status.ObservedGeneration >= set.Generation {
			return versionIn(set.Status.UpdateRevision)
		}
	}
	return ""
}

// annotationRevision is the revision number of a ReplicaSet in its Deployment; the number is raised when a revision is
// used again.
const annotationRevision = "deployment.kubernetes.io/revision"
