package resourcedistribution_test

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds/resourcedistribution"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, the controller does not write objects of other owners. In namespaces that are not
// selected, the controller only deletes copies. No copy that matches the template is written. In the end all copies
// match the template, and the status is right.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1beta1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	return chaos.Plan{
		Scheme: scheme, Seeds: 300, Steps: 400, Quiet: 3 * time.Minute,
		Kinds: []client.Object{faultapi.ClusterWide(&v1beta1.ResourceDistribution{}), &corev1.Namespace{}, &corev1.ConfigMap{}, &corev1.Secret{}},
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world}
			return chaos.Subject{
				Setup: w.start, Begin: w.begin, Users: w.users, Settle: w.settle, Denies: w.denies, Looks: w.look, Wrote: w.judge, Converged: w.converged,
			}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	full    string // the namespace whose quota is used up
	version int    // of the newest content
}

func spaces() []string { return []string{"a", "b", "c", "d", "kube-system"} }

// distributors returns the names of the ResourceDistributions: the ConfigMaps of "one" and "two" have the same name,
// and "pull" distributes a Secret.
func distributors() []string { return []string{"one", "pull", "two"} }

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return resourcedistribution.Setup(ctx, mgr, mgr.GetClient(), resourcedistribution.Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	for _, name := range spaces() {
		w.createNamespace(name)
	}
	for _, name := range distributors() {
		w.createDistributor(name)
	}
}

func (w *story) createNamespace(name string) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: w.team(), Finalizers: []string{"test/content"}}}
	if w.User.Create(context.Background(), namespace) == nil {
		w.Logf("user: creates namespace %s of team %s", name, namespace.Labels["team"])
	}
}

func (w *story) team() map[string]string {
	return map[string]string{"team": []string{"x", "y"}[w.Rand().IntN(2)]}
}

func (w *story) createDistributor(name string) {
	obj := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: name}}
	w.edit(obj)
	w.retarget(obj)
	if w.User.Create(context.Background(), obj) == nil {
		w.Logf("user: creates ResourceDistribution %s: %s to %s", name, obj.Spec.Resource.Raw, shown(obj))
	}
}

func shown(obj *v1beta1.ResourceDistribution) string {
	return fmt.Sprintf("all %t, %v, selected %v, not %v", obj.Spec.Targets.AllNamespaces, obj.Spec.Targets.IncludedNamespaces.List,
		obj.Spec.Targets.NamespaceSelector.MatchLabels, obj.Spec.Targets.ExcludedNamespaces.List)
}

// edit changes the ConfigMap or Secret in the spec of a ResourceDistribution.
func (w *story) edit(obj *v1beta1.ResourceDistribution) {
	w.version++
	content := fmt.Sprintf(`{"v":"%d","%s":""}`, w.version, []string{"p", "q"}[w.Rand().IntN(2)])
	meta := fmt.Sprintf(`"labels":{"of":"%d"}`, w.Rand().IntN(2))
	if obj.Name == "pull" {
		obj.Spec.Resource.Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"pull",%s},"stringData":%s}`, meta, content)
		return
	}
	obj.Spec.Resource.Raw = fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"shared",%s},"data":%s}`, meta, content)
}

func (w *story) retarget(obj *v1beta1.ResourceDistribution) {
	some := func(percent int) []string {
		return slices.DeleteFunc(spaces(), func(string) bool { return !w.Chance(percent) })
	}
	t := &obj.Spec.Targets
	*t = v1beta1.ResourceDistributionTargets{AllNamespaces: w.Chance(30), IncludedNamespaces: list(some(30)...), ExcludedNamespaces: list(some(20)...)}
	if w.Chance(50) {
		t.NamespaceSelector = selects("team", "x")
	}
}

// users makes a random change as a user.
func (w *story) users() {
	switch n := w.Rand().IntN(20); {
	case n < 3:
		w.userNamespace(spaces()[w.Rand().IntN(5)])
	case n < 5:
		w.userDistributor(distributors()[w.Rand().IntN(3)])
	case n < 7:
		w.changeDistributor(distributors()[w.Rand().IntN(3)])
	case n < 12:
		w.userCopy(spaces()[w.Rand().IntN(5)])
	case n < 15:
		w.createForeign(spaces()[w.Rand().IntN(5)])
	case n < 17:
		w.full = append(spaces(), "")[w.Rand().IntN(6)]
		w.Logf("the quota of namespace %q is used up", w.full)
	default:
		w.Logf("garbage is collected: %v", w.Server.CollectGarbage())
	}
}

// userNamespace deletes, creates or relabels a namespace, or completes its deletion.
func (w *story) userNamespace(name string) {
	namespace := &corev1.Namespace{}
	err := w.User.Get(context.Background(), client.ObjectKey{Name: name}, namespace)
	switch {
	case apierrors.IsNotFound(err):
		w.createNamespace(name)
	case namespace.DeletionTimestamp != nil:
		w.endNamespace(namespace)
	case w.Chance(40) && name != "kube-system":
		w.Logf("user: deletes namespace %s", name)
		w.must(w.User.Delete(context.Background(), namespace))
	default:
		namespace.Labels = w.team()
		w.Logf("user: makes namespace %s team %s's", name, namespace.Labels["team"])
		w.must(w.User.Update(context.Background(), namespace))
	}
}

// endNamespace completes a deletion as the controller of namespaces does.
func (w *story) endNamespace(namespace *corev1.Namespace) {
	w.Logf("namespace %s ends", namespace.Name)
	for _, object := range w.objects() {
		if object.GetNamespace() == namespace.Name {
			w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), object)))
		}
	}
	namespace.Finalizers = nil
	w.must(client.IgnoreNotFound(w.User.Update(context.Background(), namespace)))
}

// objects returns copies of all ConfigMaps and Secrets.
func (w *story) objects() (out []client.Object) {
	for _, found := range faultapi.All[*corev1.ConfigMap](w.Server) {
		out = append(out, found.DeepCopy())
	}
	for _, found := range faultapi.All[*corev1.Secret](w.Server) {
		out = append(out, found.DeepCopy())
	}
	return out
}

// userDistributor deletes or recreates a ResourceDistribution.
func (w *story) userDistributor(name string) {
	obj := &v1beta1.ResourceDistribution{}
	if w.User.Get(context.Background(), client.ObjectKey{Name: name}, obj) != nil {
		w.createDistributor(name)
		return
	}
	w.Logf("user: deletes ResourceDistribution %s", name)
	w.must(w.User.Delete(context.Background(), obj))
}

func (w *story) changeDistributor(name string) {
	obj := &v1beta1.ResourceDistribution{}
	if w.User.Get(context.Background(), client.ObjectKey{Name: name}, obj) != nil {
		return
	}
	if w.Chance(50) {
		w.edit(obj)
		w.Logf("user: has %s distribute %s", name, obj.Spec.Resource.Raw)
	} else {
		w.retarget(obj)
		w.Logf("user: has %s go to %s", name, shown(obj))
	}
	w.must(w.User.Update(context.Background(), obj))
}

// userCopy changes, as a user, a copy or another ConfigMap or Secret in a namespace.
func (w *story) userCopy(namespace string) {
	for _, object := range w.objects() {
		if object.GetNamespace() != namespace || !w.Chance(50) {
			continue
		}
		var what string
		switch n := w.Rand().IntN(10); {
		case n < 2:
			w.must(w.User.Delete(context.Background(), object))
			w.Logf("user: deletes %T %s/%s", object, namespace, object.GetName())
			return
		case n < 5:
			what = "edits the content of"
			w.spoil(object)
		case n < 7:
			what = "labels"
			labels := map[string]string{}
			maps.Copy(labels, object.GetLabels())
			labels["theirs"] = fmt.Sprint(w.Rand().IntN(3))
			object.SetLabels(labels)
		case n < 8:
			what = "takes the label of the template off"
			labels := maps.Clone(object.GetLabels())
			delete(labels, "of")
			object.SetLabels(labels)
		case n < 9:
			what = "takes for their own"
			object.SetOwnerReferences(nil)
		default:
			what = "makes immutable"
			setImmutable(object)
		}
		w.Logf("user: %s %T %s/%s", what, object, namespace, object.GetName())
		w.must(w.User.Update(context.Background(), object))
		return
	}
}

func (w *story) spoil(object client.Object) {
	if immutable(object) {
		return
	}
	text := fmt.Sprint("spoiled ", w.Rand().IntN(10))
	switch o := object.(type) {
	case *corev1.ConfigMap:
		o.Data = map[string]string{"v": text, "more": text}
	case *corev1.Secret:
		o.Data = map[string][]byte{"v": []byte(text)}
	}
}

func setImmutable(object client.Object) {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		o.Immutable = new(true)
	case *corev1.Secret:
		o.Immutable = new(true)
	}
}

func immutable(object client.Object) bool {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		return o.Immutable != nil && *o.Immutable
	case *corev1.Secret:
		return o.Immutable != nil && *o.Immutable
	}
	return false
}

func (w *story) createForeign(namespace string) {
	if w.namespace(namespace) == nil {
		return
	}
	var object client.Object = &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shared"}}
	if w.Chance(30) {
		object = &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pull"}, Type: "kubernetes.io/tls"}
	}
	if w.User.Create(context.Background(), object) == nil {
		w.Logf("user: creates a %T %s/%s", object, namespace, object.GetName())
	}
}

// namespace returns the server's namespace, or nil if the namespace is missing or terminating.
func (w *story) namespace(name string) *corev1.Namespace {
	namespace, ok := w.Server.Stored(&corev1.Namespace{}, client.ObjectKey{Name: name}).(*corev1.Namespace)
	if !ok || namespace.DeletionTimestamp != nil {
		return nil
	}
	return namespace
}

// settle completes deletions that have begun, and removes the quota.
func (w *story) settle() {
	w.full = ""
	for _, namespace := range faultapi.All[*corev1.Namespace](w.Server) {
		if namespace.DeletionTimestamp != nil {
			w.endNamespace(namespace.DeepCopy())
		}
	}
	w.Server.CollectGarbage()
}

// denies acts as the API server: an object can be created only in an existing namespace, and immutable objects cannot
// change.
func (w *story) denies(call faultapi.Call, before client.Object) error {
	resource := schema.GroupResource{Resource: call.Resource.Resource}
	if call.Namespace == "" || call.Resource.Resource == "events" {
		return nil
	}
	stored, exists := w.Server.Stored(&corev1.Namespace{}, client.ObjectKey{Name: call.Namespace}).(*corev1.Namespace)
	switch {
	case call.Verb == "create" && !exists:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, call.Namespace)
	case call.Verb == "create" && stored.DeletionTimestamp != nil:
		err := apierrors.NewForbidden(resource, call.Name, fmt.Errorf("namespace %s is being terminated", call.Namespace))
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
		return err
	case call.Verb != "delete" && call.Namespace == w.full && before == nil:
		return apierrors.NewForbidden(resource, call.Name, fmt.Errorf("exceeded quota"))
	}
	return nil
}
