package workloads

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

// Ref names a workload whose namespace is known from the context. The kind is compared by group and kind; the version
// does not matter.
type Ref struct {
	schema.GroupKind

	Version, Name string
}

// RefOf parses an API version, a kind and a name, and returns a zero Ref for invalid input. The input must be checked,
// because any user can write owner references, and the manager puts the parts into the URL of a request with the
// manager's permissions.
func RefOf(apiVersion, kind, name string) Ref {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil || len(name) > validation.DNS1123SubdomainMaxLength || gv.Group != "" && len(validation.IsDNS1123Subdomain(gv.Group)) > 0 || len(validation.IsDNS1035Label(gv.Version)) > 0 ||
		len(validation.IsDNS1035Label(strings.ToLower(kind))) > 0 || len(content.IsPathSegmentName(name)) > 0 {
		return Ref{}
	}
	return Ref{schema.GroupKind{Group: gv.Group, Kind: kind}, gv.Version, name}
}

// Is reports whether r and other name the same workload.
func (r Ref) Is(other Ref) bool {
	return r.GroupKind == other.GroupKind && r.Name == other.Name && r.Name != ""
}

// Owners finds the controllers of objects, and the number of Pods that a workload should have. Owners is safe for
// concurrent use. Make Owners with NewOwners.
type Owners struct {
	kinds  map[schema.GroupKind]*ownercache.Index[client.Object]
	scheme *runtime.Scheme
	reader client.Client
	clock  clock.PassiveClock

	mu     sync.Mutex
	scales map[string]scale
	scaled map[schema.GroupKind]scaledKind
}

// scale is the result of a request for the scale subresource of a workload whose kind is not cached.
type scale struct {
	at       time.Time
	replicas int32
	known    bool
}

// scaleLasts is how long a result is used before the API server is asked again. Pods of the workload are created and
// deleted more often than the scale changes.
const scaleLasts = 5 * time.Second

// scaleKept is how long a result is used if newer requests fail.
const scaleKept = 10 * time.Minute

// Kinds returns an empty object of each workload kind that is read from caches.
func Kinds() []client.Object {
	return []client.Object{
		&appsv1.ReplicaSet{}, &appsv1.Deployment{}, &appsv1.StatefulSet{}, &appsv1.DaemonSet{},
		&kruisev1beta1.CloneSet{}, &kruisev1beta1.StatefulSet{}, &kruisev1beta1.DaemonSet{},
	}
}

// NewOwners returns Owners. Workloads of the [Kinds] are read from the manager's cache. The scale of a workload of any
// other kind is read from the API server with c. If a kind is not installed, its cache is empty. Call NewOwners before
// the manager starts.
func NewOwners(ctx context.Context, mgr ownercache.Manager, c client.Client, now clock.PassiveClock) (*Owners, error) {
	w := &Owners{
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

// RefTo returns the Ref of an object whose kind is in [Kinds].
func (w *Owners) RefTo(object client.Object) Ref {
	kind, err := apiutil.GVKForObject(object, w.scheme)
	if err != nil {
		return Ref{}
	}
	return Ref{kind.GroupKind(), kind.Version, object.GetName()}
}

// Knows reports whether workloads of the kind are cached, so that changes of a workload cause events.
func (w *Owners) Knows(kind schema.GroupKind) bool { return w.kinds[kind] != nil }

// deepest is the largest number of controllers that Above returns: a Pod's controller, the controller of this
// controller, such as a UnitedDeployment, and so on.
const deepest = 4

// Above returns the controllers above an object: the object's controller, the controller's controller, and so on, as
// far as the caches show. known is false if a controller of a cached kind is not in the cache: the controller may be
// new, or may be deleted.
func (w *Owners) Above(object metav1.Object) (chain []Ref, known bool) {
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

// Below returns the UID of a workload, and the UIDs of all workloads that it controls, directly or indirectly. Pods are
// left out.
func (w *Owners) Below(namespace string, workload types.UID) []types.UID {
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

// mostBelow is the largest number of workloads that Below visits, because any user can write owner references.
const mostBelow = 1000

// Expected returns how many Pods a workload should have; 0 if the workload does not exist or is being deleted. known
// is false if the kind has no number of Pods, or the API server has not answered. Expected returns no error, because
// callers count the Pods of several workloads, and a single failure must not stop the count.
func (w *Owners) Expected(ctx context.Context, namespace string, ref Ref) (replicas int32, known bool) {
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

// Replicas returns how many Pods an object of the [Kinds] should have.
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

// scaleOf reads the scale subresource of a workload from the API server, unless a recent result is known. If the kind
// has no scale subresource, the number of Pods is unknown, and no further request is sent for the kind within
// noScaleLasts. If the API server finds no scale, but another workload of the kind has had a scale, the workload no
// longer exists. If the request fails, the last result is returned.
func (w *Owners) scaleOf(ctx context.Context, namespace string, ref Ref) (replicas int32, known bool) {
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
		known = true // the workload does not exist, and has no Pods
	}
	w.scales[key] = scale{at: now, replicas: replicas, known: known}
	return replicas, known
}

// mayAsk reports whether a request may be sent for the scale of a kind that Owners does not remember yet. Every user
// who may create Pods can name invented kinds in owner references, and the first request for a kind is expensive for
// the API server and the RESTMapper. While Owners remembers mostKinds kinds, no requests are sent for further kinds,
// and the number of their Pods is unknown.
func (w *Owners) mayAsk(kind schema.GroupKind, now time.Time) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, known := w.scaled[kind]; known || len(w.scaled) < mostKinds {
		return true
	}
	maps.DeleteFunc(w.scaled, func(_ schema.GroupKind, k scaledKind) bool { return !k.has && now.Sub(k.asked) >= noScaleLasts })
	return len(w.scaled) < mostKinds
}

// scaledKind is what Owners remembers about a kind that is not cached: whether a workload of the kind had a scale, and
// the time of the last request.
type scaledKind struct {
	has   bool
	asked time.Time
}

const (
	// noScaleLasts is how long Owners remembers that a kind has no scale subresource.
	noScaleLasts = time.Minute
	// mostKinds is the largest number of remembered kinds, and mostScales the largest number of remembered workloads.
	mostKinds  = 1000
	mostScales = 10_000
)

// askScale reads the scale subresource from the API server. found is false if the workload does not exist or the kind
// has no scale subresource: the API server returns the same error in both cases.
func (w *Owners) askScale(ctx context.Context, namespace string, ref Ref) (replicas int32, found, known bool, err error) {
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
	return int32(max(n, 0)), true, err == nil, nil //nolint:gosec // Replicas are an int32; a scale without them says nothing.
}
