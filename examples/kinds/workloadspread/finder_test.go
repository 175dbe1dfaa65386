package workloadspread

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// office is a manager with a webhook. The cache shows only events that the test delivers. While fails is true, the
// webhook's requests to the API server fail.
type office struct {
	ctrl.Manager

	t       *testing.T
	scheme  *runtime.Scheme
	cache   *faultapi.Cache
	own     *faultapi.Client // reads from the cache
	live    *faultapi.Client
	user    *faultapi.Client
	clock   *clocktesting.FakePassiveClock
	slow    time.Duration // how long the next call takes
	fails   bool
	before  func(faultapi.Call) // called before each call; nil if there is nothing to do
	webhook *webhook
}

// Pass decides what happens to the webhook's requests.
func (o *office) Pass(_ context.Context, call faultapi.Call) faultapi.Fate {
	if o.before != nil {
		o.before(call)
	}
	if o.fails {
		return faultapi.Fate{Before: apierrors.NewInternalError(errors.New("etcd is away"))}
	}
	o.clock.SetTime(o.clock.Now().Add(o.slow))
	o.slow = 0
	return faultapi.Fate{}
}

func (o *office) Add(manager.Runnable) error        { return nil } // tests call the functions that the runnable would call
func (o *office) GetCache() cache.Cache             { return o.cache }
func (o *office) GetAPIReader() client.Reader       { return o.live }
func (o *office) GetClient() client.Client          { return o.own }
func (o *office) GetScheme() *runtime.Scheme        { return o.scheme }
func (o *office) GetRESTMapper() apimeta.RESTMapper { return o.own.RESTMapper() }
func (o *office) GetLogger() logr.Logger            { return logr.Discard() }

func (o *office) must(err error) {
	o.t.Helper()
	if err != nil {
		o.t.Fatal(err)
	}
}

// create creates objects. If shown is true, the cache shows the objects at once.
func (o *office) create(shown bool, objects ...client.Object) {
	o.t.Helper()
	for _, object := range objects {
		o.must(o.user.Create(o.t.Context(), object))
	}
	if shown {
		o.deliver()
	}
}

func (o *office) deliver() {
	for _, resource := range o.cache.Resources() {
		o.cache.Deliver(resource, o.cache.Behind(resource))
	}
	o.cache.Announce()
}

func newOffice(t *testing.T) *office {
	o := &office{t: t, scheme: runtime.NewScheme(), clock: clocktesting.NewFakePassiveClock(time.Now())}
	o.must(errors.Join(clientgoscheme.AddToScheme(o.scheme), v1beta1.AddToScheme(o.scheme)))
	server, err := faultapi.New(o.scheme, time.Now, append(workloads.Kinds(), &v1beta1.WorkloadSpread{}, faultapi.ClusterWide(&corev1.Node{}))...)
	o.must(err)
	o.cache, o.user = server.Cache(nil), server.Client(nil, nil)
	o.own, o.live = server.Client(o, o.cache), server.Client(o, nil)
	o.webhook, err = newWebhook(t.Context(), o, &listed{}, apps.DefaultGates(), "replicaset", o.clock)
	o.must(err)
	return o
}

func controlled(object client.Object, by client.Object, kind string) client.Object {
	gv := appsv1.SchemeGroupVersion
	if kind == "CloneSet" {
		gv = v1beta1.GroupVersion
	}
	object.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(by, gv.WithKind(kind))})
	return object
}

func inShop(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "shop", Name: name, Labels: map[string]string{"app": "web"}}
}

// TestPodsOfTargets: a Pod belongs to a WorkloadSpread if the target is one of the controllers above the Pod. The
// target is compared by group, kind and name.
func TestPodsOfTargets(t *testing.T) {
	for _, tc := range []struct {
		name   string
		target v1beta1.WorkloadSpreadTarget
		filter map[string]string
		// late hides the ReplicaSet from the cache.
		late, fails, deleted bool

		subset string
		fault  bool
	}{
		{name: "WS-11 the Deployment above the ReplicaSet", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, subset: "a"},
		{name: "WS-11 the ReplicaSet", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web-1"}, subset: "a"},
		{name: "WS-11 another name", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "api"}},
		{name: "WS-11 another group", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps.kruise.io/v1beta1", Kind: "StatefulSet", Name: "web"}},
		{name: "WS-12 a late cache", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, late: true, subset: "a"},
		{name: "WS-12 nobody knows", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, late: true, fails: true, fault: true},
		{name: "WS-14 another filter", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, filter: map[string]string{"app": "other"}},
		{name: "WS-14 the filter", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, filter: map[string]string{"app": "web"}, subset: "a"},
		{name: "WS-21 gone meanwhile", target: v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}, deleted: true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOffice(t)
			spread := &v1beta1.WorkloadSpread{ObjectMeta: inShop("web")}
			spread.Spec.TargetReference = tc.target
			if tc.filter != nil {
				spread.Spec.TargetFilter = &v1beta1.WorkloadSpreadTargetFilter{Selector: &metav1.LabelSelector{MatchLabels: tc.filter}}
			}
			most := intstr.FromInt32(1)
			spread.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: &most}, {Name: "b"}}
			deployment := &appsv1.Deployment{ObjectMeta: inShop("web")}
			o.create(true, spread, deployment)
			set := controlled(&appsv1.ReplicaSet{ObjectMeta: inShop("web-1")}, deployment, "Deployment")
			o.create(!tc.late, set)
			pod := controlled(&corev1.Pod{ObjectMeta: inShop("web-1-x")}, set, "ReplicaSet").(*corev1.Pod)
			if tc.deleted {
				o.must(o.user.Delete(t.Context(), spread))
			}
			o.fails = tc.fails
			err := o.webhook.spread(t.Context(), pod)
			if got := subsetOf(pod); got != tc.subset || (err != nil) != tc.fault || err != nil && !apierrors.IsServiceUnavailable(err) {
				t.Errorf("subset %q, error %v, want %q, an error %t", got, err, tc.subset, tc.fault)
			}
		})
	}
}

// TestSlowWrite: if the write of the status with a Pod's place is slow, the time after which the unused place is free
// again counts from the end of the write.
func TestSlowWrite(t *testing.T) {
	o := newOffice(t)
	spread, deployment := &v1beta1.WorkloadSpread{ObjectMeta: inShop("web")}, &appsv1.Deployment{ObjectMeta: inShop("web")}
	spread.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
	most := intstr.FromInt32(1)
	spread.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: &most}, {Name: "b"}}
	o.create(true, spread, deployment)
	pod := controlled(&corev1.Pod{ObjectMeta: inShop("web-x")}, deployment, "Deployment").(*corev1.Pod)
	o.slow = 29 * time.Second
	o.must(o.webhook.spread(t.Context(), pod))
	o.must(o.user.Get(t.Context(), client.ObjectKeyFromObject(spread), spread))
	list := spread.Status.VersionedSubsetStatuses[apps.SubsetVersionIgnored]
	if len(list) == 0 || o.clock.Since(list[0].CreatingPods["web-x"].Time) > 2*time.Second || subsetOf(pod) != "a" {
		t.Errorf("subset %q at %v, places %+v", subsetOf(pod), o.clock.Now(), list)
	}
}

// TestSlowCount: places in subsets that are taken while the controller's count waits for slow writes are kept. An old
// count would treat these places as taken in the future and free the places, and the subset could get more Pods than
// its maximum.
func TestSlowCount(t *testing.T) {
	for _, tc := range []struct {
		name string
		took time.Duration
		want bool // whether the count is written
	}{
		{"in time", longestCount, true},
		{"too late", longestRequest + 5*time.Second, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := newOffice(t)
			spread, deployment := &v1beta1.WorkloadSpread{ObjectMeta: inShop("web")}, &appsv1.Deployment{ObjectMeta: inShop("web")}
			spread.Spec.TargetReference = v1beta1.WorkloadSpreadTarget{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}
			most := intstr.FromInt32(1)
			spread.Spec.Subsets = []v1beta1.WorkloadSpreadSubset{{Name: "a", MaxReplicas: &most}, {Name: "b"}}
			o.create(true, spread, deployment)
			s, _ := o.webhook.settingsOf(spread)
			began := o.clock.Now()
			o.clock.SetTime(began.Add(tc.took))
			o.must(o.webhook.spread(t.Context(), controlled(&corev1.Pod{ObjectMeta: inShop("web-x")}, deployment, "Deployment").(*corev1.Pod)))
			o.deliver()
			r := &Reconciler{webhook: o.webhook}
			p, err := r.count(t.Context(), &view{Owner: spread, Now: began}, s, observed{pods: s.crowdOf("web", nil, o.webhook.versioned), versioned: o.webhook.versioned, now: began})
			o.must(err)
			o.must(o.user.Get(t.Context(), client.ObjectKeyFromObject(spread), spread))
			if list := spread.Status.VersionedSubsetStatuses[apps.SubsetVersionIgnored]; len(list) == 0 || len(list[0].CreatingPods) != 1 {
				t.Errorf("the place is lost: %+v", spread.Status)
			}
			if written := spread.Status.ObservedGeneration == spread.Generation; written != tc.want || written == (p.requeueAfter == overtakenRetry) {
				t.Errorf("written %t, want %t; again after %s", written, tc.want, p.requeueAfter)
			}
		})
	}
}
