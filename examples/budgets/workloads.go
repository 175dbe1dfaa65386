package budgets

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	kruisev1beta1 "github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ownercache"
)

// Ref names a workload in a namespace that is known from elsewhere. Versions of a group are one kind.
type Ref struct {
	schema.GroupKind

	Version, Name string
}

// RefOf reads an API version, a kind and a name; what makes no sense names nothing. Owner references are anybody's to write, and become part of a
// path that is asked for with the manager's rights.
func RefOf(apiVersion, kind, name string) Ref {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || len(name) > validation.DNS1123SubdomainMaxLength || gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0 || len(validation.IsDNS1035Label(gv.Version)) > 0 ||
		len(validation.IsDNS1035Label(strings.ToLower(kind))) > 0 || len(content.IsPathSegmentName(name)) > 0 {
		return Ref{}
	}
	return Ref{schema.GroupKind{Group: gv.Group, Kind: kind}, gv.Version, name}
}

// Is reports whether both name the same workload.
func (r Ref) Is(other Ref) bool {
	return r.GroupKind == other.GroupKind && r.Name == other.Name && r.Name != ""
}

// Workloads knows who controls whom, and how many Pods there should be. It is safe for concurrent use. Make it with NewWorkloads.
type Workloads struct {
	kinds  map[schema.GroupKind]*ownercache.Index[client.Object]
	scheme *runtime.Scheme
	reader client.Client
	clock  clock.PassiveClock

	mu     sync.Mutex
	scales map[string]scale
	scaled map[schema.GroupKind]scaledKind
}

// scale is what the scale subresource of a kind said that no cache has.
type scale struct {
	at       time.Time
	replicas int32
	known    bool
}

// scaleLasts bounds how often the scale of a workload is asked for: its Pods come and go more often than it changes.
const scaleLasts = 5 * time.Second

// scaleKept is for how long what a scale said is kept for when nobody can be asked.
const scaleKept = 10 * time.Minute

// Kinds are objects of the kinds that workloads are read of from caches.
func Kinds() []client.Object {
	return []client.Object{
		&appsv1.ReplicaSet{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{},
		&kruisev1beta1.CloneSet{}, &kruisev1beta1.StatefulSet{}, &kruisev1beta1.DaemonSet{},
	}
}

// NewWorkloads returns Workloads that read those of the [Kinds] from the manager's cache, and the scale of others with c, from the API server. A kind
// that is not installed has an empty cache. Call it before the manager starts.
func NewWorkloads(ctx context.Context, mgr ownercache.Manager, c client.Client, now clock.PassiveClock) (*Workloads, error) {
	w := &Workloads{
		kinds: map[schema.GroupKind]*ownercache.Index[client.Object]{}, scheme: mgr.GetScheme(), reader: c, clock: now, scales: map[string]scale{}, scaled: map[schema.GroupKind]scaledKind{},
	}
	for _, object := range Kinds() {
		kind, err := apiutil.GVKForObject(object, w.scheme)
		if err != nil {
			return nil, fmt.Errorf("kind of %T: %w", object, err)
		}
		if w.kinds[kind.GroupKind()], err = ownercache.NewIndex(ctx, mgr.GetCache(), object); err != nil {
			return nil, err
		}
	}
	return w, nil
}

// RefTo names an object of one of the [Kinds].
func (w *Workloads) RefTo(object client.Object) Ref {
	kind, err := apiutil.GVKForObject(object, w.scheme)
	if err != nil {
		return Ref{}
	}
	return Ref{kind.GroupKind(), kind.Version, object.GetName()}
}

// Knows reports whether workloads of the kind are in a cache, so that their events tell of changes.
func (w *Workloads) Knows(kind schema.GroupKind) bool { return w.kinds[kind] != nil }

// deepest bounds how many controllers stand above each other: a Pod's, and those of a UnitedDeployment or whatever makes them.
const deepest = 4

// Above returns who controls an object, and who controls that, as far as caches know. known is false where one of them is of a kind that the caches
// have, and is not there: it may be new, or gone.
func (w *Workloads) Above(object metav1.Object) (chain []Ref, known bool) {
	for range deepest {
		owner := metav1.GetControllerOfNoCopy(object)
		if owner == nil {
			return chain, true
		}
		ref := RefOf(owner.APIVersion, owner.Kind, owner.Name)
		chain = append(chain, ref)
		index := w.kinds[ref.GroupKind]
		if index == nil {
			return chain, true
		}
		found, ok := index.Get(object.GetNamespace(), ref.Name)
		if !ok || found.GetUID() != owner.UID {
			return chain, false
		}
		object = found
	}
	return chain, true
}

// Below returns the UID of a workload, and those of what it controls, down to whatever controls Pods.
func (w *Workloads) Below(namespace string, workload types.UID) []types.UID {
	all := []types.UID{workload}
	for i := 0; i < len(all) && i < mostBelow; i++ {
		for _, index := range w.kinds {
			for _, object := range index.Of(namespace, all[i]) {
				all = append(all, object.GetUID())
			}
		}
	}
	return all
}

// mostBelow bounds what is looked at below a workload: owner references are anybody's to write.
const mostBelow = 1000

// Expected returns how many Pods a workload should have: none if it is gone or going. known is false where its kind does not say, or nobody can be
// asked: what one workload is like must not keep the Pods of others from being counted.
func (w *Workloads) Expected(ctx context.Context, namespace string, ref Ref) (replicas int32, known bool) {
	if ref.Name == "" {
		return 0, false
	}
	index := w.kinds[ref.GroupKind]
	if index == nil {
		return w.scaleOf(ctx, namespace, ref)
	}
	object, ok := index.Get(namespace, ref.Name)
	if !ok || object.GetDeletionTimestamp() != nil {
		return 0, true
	}
	return Replicas(object), true
}

// Replicas is how many Pods an object of one of the [Kinds] should have.
func Replicas(object client.Object) int32 {
	var replicas *int32
	switch o := object.(type) {
	case *appsv1.ReplicaSet:
		replicas = o.Spec.Replicas
	case *appsv1.Deployment:
		replicas = o.Spec.Replicas
	case *appsv1.StatefulSet:
		replicas = o.Spec.Replicas
	case *kruisev1beta1.CloneSet:
		replicas = o.Spec.Replicas
	case *kruisev1beta1.StatefulSet:
		replicas = o.Spec.Replicas
	case *appsv1.DaemonSet:
		return o.Status.DesiredNumberScheduled
	case *kruisev1beta1.DaemonSet:
		return o.Status.DesiredNumberScheduled
	}
	if replicas == nil {
		return 1
	}
	return max(*replicas, 0)
}

// scaleOf asks for the scale of a workload, unless that was done a moment ago. Where a kind has none, which is remembered for a while, nobody knows
// how many Pods there should be. Where others of the kind had one, a workload that has none is gone. What cannot be read is what it was.
func (w *Workloads) scaleOf(ctx context.Context, namespace string, ref Ref) (replicas int32, known bool) {
	key, now := fmt.Sprint(namespace, "/", ref.Group, "/", ref.Kind, "/", ref.Name), w.clock.Now()
	w.mu.Lock()
	last, ok := w.scales[key]
	kind := w.scaled[ref.GroupKind]
	w.mu.Unlock()
	switch {
	case ok && now.Sub(last.at) < scaleLasts:
		return last.replicas, last.known
	case !kind.has && (now.Sub(kind.asked) < noScaleLasts || !w.mayAsk(ref.GroupKind, now)):
		return 0, false
	}
	replicas, found, known, err := w.askScale(ctx, namespace, ref)
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.scales, func(_ string, s scale) bool { return now.Sub(s.at) >= scaleKept })
	if len(w.scales) >= mostScales {
		clear(w.scales)
	}
	if err != nil {
		logr.FromContextOrDiscard(ctx).Error(err, "Asking how many Pods there should be")
		w.scales[key] = scale{at: now, replicas: last.replicas, known: last.known}
		return last.replicas, last.known
	}
	kind = scaledKind{has: kind.has || known, asked: now}
	w.scaled[ref.GroupKind] = kind
	if !found && kind.has {
		known = true // it is gone, and has no Pods
	}
	w.scales[key] = scale{at: now, replicas: replicas, known: known}
	return replicas, known
}

// mayAsk reports whether there is room for what is known of one more kind: whoever may create Pods invents some, and each that is asked for costs the
// API server and all who look kinds up. Those beyond that do not say how many Pods there should be, for a while.
func (w *Workloads) mayAsk(kind schema.GroupKind, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.scaled[kind]; known || len(w.scaled) < mostKinds {
		return true
	}
	maps.DeleteFunc(w.scaled, func(_ schema.GroupKind, k scaledKind) bool { return !k.has && now.Sub(k.asked) >= noScaleLasts })
	return len(w.scaled) < mostKinds
}

// scaledKind is what is known of a kind that no cache has: whether one of it had a scale, and when that was asked last.
type scaledKind struct {
	has   bool
	asked time.Time
}

const (
	// noScaleLasts is for how long it is remembered that a kind has no scale.
	noScaleLasts = time.Minute
	// mostKinds bounds of how many kinds that is remembered, and mostScales of how many workloads.
	mostKinds  = 1000
	mostScales = 10_000
)

// askScale asks the API server. found is false where there is no workload, or its kind has no scale: the answers are the same.
func (w *Workloads) askScale(ctx context.Context, namespace string, ref Ref) (replicas int32, found, known bool, err error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ref.WithVersion(ref.Version))
	object.SetNamespace(namespace)
	object.SetName(ref.Name)
	got := &unstructured.Unstructured{}
	got.SetGroupVersionKind(schema.GroupVersionKind{Group: "autoscaling", Version: "v1", Kind: "Scale"})
	err = w.reader.SubResource("scale").Get(ctx, object, got)
	switch {
	case apierrors.IsNotFound(err):
		return 0, false, false, nil
	case apimeta.IsNoMatchError(err), apierrors.IsForbidden(err), apierrors.IsMethodNotSupported(err):
		return 0, true, false, nil
	case err != nil:
		return 0, false, false, fmt.Errorf("reading the scale of %s %s/%s: %w", ref.Kind, namespace, ref.Name, err)
	}
	n, _, err := unstructured.NestedInt64(got.Object, "spec", "replicas")
	return int32(max(n, 0)), true, err == nil, nil //nolint:gosec // Replicas are an int32; a scale that is none says nothing.
}
