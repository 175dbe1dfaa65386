package podunavailablebudget

import (
	"context"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/disruption"
	kruisev1beta1 "github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/apis/policy"
	"github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/workloads"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// world is an API server in memory, with the caches of one process.
type world struct {
	testing.TB
	server *faultapi.Server
	cache  *faultapi.Cache
	scheme *runtime.Scheme
	user   client.Client
	asked  *Budgets
}

func newWorld(t testing.TB) *world {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme, kruisev1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	server, err := faultapi.New(scheme, time.Now, append(workloads.Kinds(), &v1beta1.PodUnavailableBudget{})...)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{TB: t, server: server, cache: server.Cache(nil), scheme: scheme, user: server.Client(nil, nil)}
	if w.asked, err = New(t.Context(), w, server.Client(nil, w.cache), nil, nil); err != nil {
		t.Fatal(err)
	}
	return w
}

// These are the methods of a manager that budgets use.
func (w *world) GetCache() cache.Cache          { return w.cache }
func (w *world) GetClient() client.Client       { return w.server.Client(nil, w.cache) }
func (w *world) GetAPIReader() client.Reader    { return w.user }
func (w *world) GetScheme() *runtime.Scheme     { return w.scheme }
func (*world) Add(manager.Runnable) error       { return nil }
func (w *world) GetRESTMapper() meta.RESTMapper { return w.user.RESTMapper() }

// sync delivers all events to the process.
func (w *world) sync() {
	for _, resource := range w.cache.Resources() {
		w.cache.Deliver(resource, w.cache.Behind(resource))
	}
}

func (w *world) create(objects ...client.Object) {
	w.Helper()
	for _, object := range objects {
		object.SetNamespace("shop")
		if err := w.user.Create(context.Background(), object); err != nil {
			w.Fatal(err)
		}
	}
	w.sync()
}

func budget(name string, labels map[string]string, target *v1beta1.TargetReference) *v1beta1.PodUnavailableBudget {
	b := &v1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Name: name}}
	if b.Spec.TargetReference = target; target == nil {
		b.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	}
	b.Spec.MaxUnavailable = ptr.To(intstr.FromInt32(1))
	return b
}

func controlledBy(owner client.Object, apiVersion, kind string) []metav1.OwnerReference {
	return []metav1.OwnerReference{{APIVersion: apiVersion, Kind: kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}}
}

func TestFinder(t *testing.T) {
	w := newWorld(t)
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}}
	w.create(deployment, budget("by-labels", map[string]string{"app": "web"}, nil), budget("by-other-labels", map[string]string{"tier": "front"}, nil),
		budget("by-target", nil, &v1beta1.TargetReference{APIVersion: "apps/v1beta2", Kind: "Deployment", Name: "web"}),
		budget("by-target-too", nil, &v1beta1.TargetReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "api"}))
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "web-7d", OwnerReferences: controlledBy(deployment, "apps/v1", "Deployment")}}
	w.create(set)
	unknown := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Name: "new", UID: "not-seen"}}
	for _, tc := range []struct {
		name   string
		labels map[string]string
		says   map[string]string
		owner  *appsv1.ReplicaSet
		want   string // names, separated by spaces
	}{
		{"PUB-4 by labels", map[string]string{"app": "web"}, nil, nil, "by-labels"},
		{"PUB-4 labels of another app", map[string]string{"app": "db"}, nil, nil, ""},
		{"PUB-4 by the Deployment of its ReplicaSet, in any version", nil, nil, set, "by-target"},
		{"PUB-6 it says which", map[string]string{"app": "web", "tier": "front"}, map[string]string{policy.AnnotationRelatedBudget: "by-other-labels"}, nil, "by-other-labels by-labels"},
		{"PUB-6 it says which by the old name", map[string]string{"app": "web", "tier": "front"}, map[string]string{policy.AnnotationRelatedBudgetOld: "by-other-labels"}, nil, "by-other-labels by-labels"},
		{"PUB-6 the new name comes first", map[string]string{"app": "web", "tier": "front"}, map[string]string{policy.AnnotationRelatedBudget: "by-labels", policy.AnnotationRelatedBudgetOld: "by-other-labels"}, nil, "by-labels by-other-labels"},
		{"it says one that is not for it", map[string]string{"app": "web"}, map[string]string{policy.AnnotationRelatedBudget: "by-other-labels"}, nil, "by-labels"},
		{"3.4 it says one that is gone", map[string]string{"app": "web"}, map[string]string{policy.AnnotationRelatedBudget: "former"}, nil, "by-labels"},
		{"two selectors", map[string]string{"app": "web", "tier": "front"}, nil, nil, "by-labels by-other-labels"},
		{"a selector and a target", map[string]string{"app": "web"}, nil, set, "by-labels by-target"},
		{"a selector and a target that it says", map[string]string{"app": "web"}, map[string]string{policy.AnnotationRelatedBudget: "by-target"}, set, "by-target by-labels"},
		{"who controls it is not known: all that it says counts", nil, map[string]string{policy.AnnotationRelatedBudget: "by-target", policy.AnnotationOtherBudgets: "by-labels,by-target-too"}, unknown, "by-target by-target-too"},
		{"who controls it is not known: what it says counts", nil, map[string]string{policy.AnnotationRelatedBudget: "by-target"}, unknown, "by-target"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: tc.labels, Annotations: tc.says}}
			if tc.owner != nil {
				pod.OwnerReferences = controlledBy(tc.owner, "apps/v1", "ReplicaSet")
			}
			if got := namesOf(w.asked.Of(pod)); got != tc.want {
				t.Errorf("budgets %q, want %q", got, tc.want)
			}
		})
	}
}

func namesOf(of []*v1beta1.PodUnavailableBudget) string {
	var names []string
	for _, budget := range of {
		names = append(names, budget.Name)
	}
	return strings.Join(names, " ")
}

// TestFinderMissesNone: the finder finds budgets with every kind of selector. Of several budgets, the oldest comes
// first.
func TestFinderMissesNone(t *testing.T) {
	w := newWorld(t)
	exists := budget("a-expression", nil, nil)
	exists.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "canary", Operator: metav1.LabelSelectorOpExists}}
	both := budget("b-both", map[string]string{"app": "web", "tier": "front"}, nil)
	both.Spec.Selector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "zone", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"x"}}}
	elsewhere := budget("a-elsewhere", map[string]string{"tier": "front"}, nil)
	elsewhere.Namespace = "other"
	w.create(exists, both, budget("c-tier", map[string]string{"tier": "front"}, nil))
	if err := w.user.Create(t.Context(), elsewhere); err != nil {
		t.Fatal(err)
	}
	w.sync()
	for _, tc := range []struct {
		labels map[string]string
		want   string
	}{
		{map[string]string{"canary": ""}, "a-expression"},
		{map[string]string{"canary": "1", "tier": "front"}, "a-expression c-tier"},
		{map[string]string{"app": "web", "tier": "front"}, "b-both c-tier"},
		{map[string]string{"app": "web", "tier": "front", "zone": "x"}, "c-tier"},
		{map[string]string{"tier": "front"}, "c-tier"},
		{map[string]string{"app": "web"}, ""},
		{nil, ""},
	} {
		got := namesOf(w.asked.Of(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-0", Labels: tc.labels}}))
		if got != tc.want {
			t.Errorf("labels %v: budgets %q, want %q", tc.labels, got, tc.want)
		}
	}
}

func TestExpected(t *testing.T) {
	w := newWorld(t)
	three, going := int32(3), &kruisev1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "going", Finalizers: []string{"test/wait"}}}
	w.create(&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: appsv1.DeploymentSpec{Replicas: &three}}, &kruisev1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Name: "one"}}, going)
	if err := w.user.Delete(t.Context(), going); err != nil {
		t.Fatal(err)
	}
	w.sync()
	for name, tc := range map[string]struct {
		ref  workloads.Ref
		want int32
	}{
		"PUB-7 replicas of a Deployment":        {workloads.RefOf("apps/v1", "Deployment", "web"), 3},
		"PUB-7 a CloneSet that does not say":    {workloads.RefOf("apps.kruise.io/v1alpha1", "CloneSet", "one"), 1},
		"PUB-14 a CloneSet that is going":       {workloads.RefOf("apps.kruise.io/v1beta1", "CloneSet", "going"), 0},
		"PUB-14 a Deployment that is not there": {workloads.RefOf("apps/v1", "Deployment", "former"), 0},
	} {
		if got, known := w.asked.Expected(t.Context(), "shop", tc.ref); got != tc.want || !known {
			t.Errorf("%s: %d, %t; want %d", name, got, known, tc.want)
		}
	}
}

// TestAsk checks the conditions that Ask checks before the budget decides, in their order.
func TestAsk(t *testing.T) {
	w := newWorld(t)
	b := budget("guard", map[string]string{"app": "web"}, nil)
	b.Spec.IgnoredPodSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"spot": "true"}}
	b.Spec.ProtectOperations = []v1beta1.Operation{"DELETE"}
	w.create(b)
	b.Status = v1beta1.PodUnavailableBudgetStatus{ObservedGeneration: b.Generation, TotalReplicas: 2, DesiredAvailable: 1, CurrentAvailable: 2, UnavailableAllowed: 1}
	if err := w.user.Status().Update(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	w.sync()
	for _, tc := range []struct {
		name      string
		edit      func(*corev1.Pod)
		operation disruption.Operation
		admitted  bool
		code      string
	}{
		{"PUB-16 the gate for it is off", nil, disruption.Update, true, string(NotCovered)},
		{"PUB-19 it is not protected", func(p *corev1.Pod) { p.Annotations[policy.AnnotationNoProtect] = "1" }, disruption.Delete, true, string(NotProtected)},
		{"PUB-19 junk protects", func(p *corev1.Pod) { p.Annotations[policy.AnnotationNoProtect] = "yes please" }, disruption.Delete, true, ""},
		{"PUB-19 it does not serve", func(p *corev1.Pod) { p.Status.Phase = corev1.PodPending }, disruption.Delete, true, string(disruption.NotServing)},
		{"PUB-19 it is ignored", func(p *corev1.Pod) { p.Labels["spot"] = "true" }, disruption.Delete, true, string(NotCovered)},
		{"PUB-19 it has no budget", func(p *corev1.Pod) { p.Labels["app"] = "db" }, disruption.Delete, true, string(NoBudget)},
		{"PUB-25 evictions are not covered", nil, disruption.Evict, true, string(NotCovered)},
		{"PUB-20 nothing is left", nil, disruption.Delete, false, string(disruption.BudgetSpent)},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := serving(tc.edit)
			pod.Name, pod.UID, pod.CreationTimestamp = "web-"+tc.name, types.UID(tc.name), metav1.NewTime(start.Add(-time.Hour))
			answer, err := w.asked.Ask(t.Context(), pod, tc.operation, false)
			if err != nil || answer.Admitted != tc.admitted || string(answer.Reason.Code) != tc.code {
				t.Errorf("%+v, %v; want admitted %t, code %q", answer, err, tc.admitted, tc.code)
			}
			if err := w.asked.Permit(t.Context(), pod, tc.operation); (err == nil) != tc.admitted {
				t.Errorf("C-44 a controller is told %v", err)
			}
		})
	}
}
