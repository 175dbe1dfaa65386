package resourcedistribution_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apiresource "k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestManifest uses the manifest of OpenKruise's release announcement: with a list, a selector and an exclusion, a
// listed namespace that is created later, a copy that a user edits or deletes, a namespace that loses its label, a
// changed resource, and finally the deletion.
func TestManifest(t *testing.T) {
	c := start(t)
	group := map[string]string{"group": c.prefix}
	ns := c.namespaces(group, "1", "2", "3")
	text, err := os.ReadFile("testdata/game-demo.yaml")
	if err != nil {
		t.Fatal(err)
	}
	obj := &v1beta1.ResourceDistribution{}
	if err := yaml.Unmarshal([]byte(strings.ReplaceAll(string(text), "NAMESPACE", c.prefix)), obj); err != nil {
		t.Fatal(err)
	}
	if err := c.Create(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), obj) })

	c.counts(obj, 3, 2)
	if diff := cmp.Diff(map[string][]string{"NamespaceNotExists": {c.prefix + "-4"}}, failing(obj)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	c.gone(ns[2], "game-demo")
	copied := c.configMap(ns[0], "game-demo", value("player_initial_lives", "3"))
	owner := metav1.GetControllerOf(copied)
	if owner == nil || owner.UID != obj.UID || copied.Annotations[apps.AnnotationDistributedFrom] != "sample" || len(copied.Annotations[apps.AnnotationDistributedHash]) != 64 {
		t.Errorf("copy %+v", copied.ObjectMeta)
	}

	c.namespaces(nil, "4")
	c.counts(obj, 3, 3)
	if len(obj.Status.Conditions) != 6 || len(failing(obj)) > 0 {
		t.Errorf("conditions %+v", obj.Status.Conditions)
	}

	change(c, copied, func(m *corev1.ConfigMap) {
		m.Data["player_initial_lives"], m.Data["more"] = "99", "of it"
		m.Labels = map[string]string{"mine": "stays"}
	})
	copied = c.configMap(ns[0], "game-demo", value("player_initial_lives", "3"))
	if copied.Data["more"] != "" || copied.Labels["mine"] != "stays" {
		t.Errorf("after the edit: %+v", copied)
	}
	uid := copied.UID
	if err := c.Delete(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	c.configMap(ns[0], "game-demo", func(m *corev1.ConfigMap) error {
		if m.UID == uid {
			return fmt.Errorf("not deleted")
		}
		return nil
	})

	change(c, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns[1]}}, func(n *corev1.Namespace) { delete(n.Labels, "group") })
	c.gone(ns[1], "game-demo")
	c.counts(obj, 2, 2)

	change(c, obj, func(o *v1beta1.ResourceDistribution) {
		o.Spec.Resource.Raw = []byte(strings.Replace(string(o.Spec.Resource.Raw), `"player_initial_lives":"3"`, `"player_initial_lives":"7"`, 1))
	})
	c.configMap(ns[0], "game-demo", value("player_initial_lives", "7"))
	c.counts(obj, 2, 2)

	if err := c.Delete(t.Context(), obj); err != nil {
		t.Fatal(err)
	}
	c.gone(ns[0], "game-demo")
	c.gone(c.prefix+"-4", "game-demo")
}

// TestConflict: the controller never changes an object of another owner. After such an object was deleted, the copy
// is created.
func TestConflict(t *testing.T) {
	c := start(t)
	ns := c.namespaces(nil, "a", "b")
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns[0], Name: "shared"}, Data: map[string]string{"whose": "mine"}}
	if err := c.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	obj := c.distribute(configMap("shared", map[string]string{"whose": "all's"}), v1beta1.ResourceDistributionTargets{IncludedNamespaces: list(ns...)})
	c.counts(obj, 2, 1)
	if diff := cmp.Diff(map[string][]string{"ConflictOccurred": {ns[0]}}, failing(obj)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		var events corev1.EventList
		if err := c.List(ctx, &events, client.MatchingFields{"involvedObject.name": obj.Name}); err != nil {
			return err
		}
		for i := range events.Items {
			if e := &events.Items[i]; e.Reason == "ConflictOccurred" && e.Type == "Warning" && strings.Contains(e.Message, ns[0]) {
				return nil
			}
		}
		return fmt.Errorf("%d events, none about the conflict", len(events.Items))
	})
	version := foreign.ResourceVersion
	if foreign = c.configMap(ns[0], "shared", value("whose", "mine")); foreign.ResourceVersion != version {
		t.Errorf("version %s of what is foreign, was %s", foreign.ResourceVersion, version)
	}
	if err := c.Delete(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	c.configMap(ns[0], "shared", value("whose", "all's"))
	c.counts(obj, 2, 2)
}

// TestRefusedSomewhere: if some namespaces refuse a copy, all other namespaces get the copy, and the refusing
// namespaces get the copy when their quota has space.
func TestRefusedSomewhere(t *testing.T) {
	c := start(t)
	ns := c.namespaces(nil, "a", "b", "c", "d", "e", "f", "g", "h")
	full := corev1.ResourceList{"count/configmaps": apiresource.MustParse("0")}
	for _, name := range []string{ns[0], ns[7]} {
		quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "full"}, Spec: corev1.ResourceQuotaSpec{Hard: full}}
		if err := c.Create(t.Context(), quota); err != nil {
			t.Fatal(err)
		}
		counted := client.RawPatch(types.MergePatchType, []byte(`{"status":{"hard":{"count/configmaps":"0"},"used":{"count/configmaps":"0"}}}`))
		if err := c.Status().Patch(t.Context(), quota, counted); err != nil { // no quota controller runs here
			t.Fatal(err)
		}
		probe := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "probe"}}
		controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
			if err := c.Create(ctx, probe.DeepCopy(), client.DryRunAll); !apierrors.IsForbidden(err) {
				return fmt.Errorf("the quota is not in force yet: %w", err)
			}
			return nil
		})
	}
	obj := c.distribute(configMap("limits", nil), v1beta1.ResourceDistributionTargets{IncludedNamespaces: list(ns...)})
	c.counts(obj, 8, 6)
	if diff := cmp.Diff(map[string][]string{"CreateResourceFailed": {ns[0], ns[7]}}, failing(obj)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	for _, name := range []string{ns[0], ns[7]} {
		if err := c.Delete(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: "full"}}); err != nil {
			t.Fatal(err)
		}
	}
	c.counts(obj, 8, 8)
}

// TestNoNeedlessWrites: a Secret with stringData and without a type is written once in each namespace, and the
// template's labels are on the copies. Neither a new process nor unrelated edits cause another write.
func TestNoNeedlessWrites(t *testing.T) {
	c := idle(t)
	stop := c.run()
	ns := c.namespaces(nil, "a", "b")
	secret := resource{
		"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "pull", "labels": map[string]string{"team": "one"}},
		"data": map[string]string{"k": "djE="}, "stringData": map[string]string{"token": "abc"},
	}
	begin := controllertest.End(t, c.cp.AuditLog())
	obj := c.distribute(secret, v1beta1.ResourceDistributionTargets{IncludedNamespaces: list(ns...)})
	c.counts(obj, 2, 2)
	once := []string{"create secrets " + ns[0] + "/pull 201", "create secrets " + ns[1] + "/pull 201"}
	if diff := cmp.Diff(once, sorted(c.writes(begin))); diff != "" {
		t.Errorf("writes (-want +got):\n%s", diff)
	}

	// A new process reads each copy once, and writes none. When a newly created namespace has its copy, the new process
	// has reconciled.
	stop()
	begin = controllertest.End(t, c.cp.AuditLog())
	c.run()
	late := c.namespaces(nil, "late")
	change(c, obj, func(o *v1beta1.ResourceDistribution) {
		o.Spec.Targets.IncludedNamespaces = list(append(late, ns...)...)
	})
	c.counts(obj, 3, 3)
	if diff := cmp.Diff([]string{"create secrets " + late[0] + "/pull 201"}, c.writes(begin)); diff != "" {
		t.Errorf("writes after a restart (-want +got):\n%s", diff)
	}

	begin = controllertest.End(t, c.cp.AuditLog())
	change(c, obj, func(o *v1beta1.ResourceDistribution) {
		o.Spec.Resource.Raw = []byte(strings.Replace(string(o.Spec.Resource.Raw), `"team":"one"`, `"team":"two"`, 1))
	})
	for _, namespace := range append(late, ns...) {
		controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
			found := &corev1.Secret{}
			err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "pull"}, found)
			if err == nil && (found.Labels["team"] != "two" || string(found.Data["token"]) != "abc" || found.Type != corev1.SecretTypeOpaque) {
				err = fmt.Errorf("%+v", found)
			}
			return err
		})
	}
	c.counts(obj, 3, 3)
	if got := c.writes(begin); len(got) != 3 {
		t.Errorf("writes for a label: %q", got)
	}
}

// TestFixedCopies: conditions report a Secret whose type cannot change and an immutable copy. These copies are not
// changed until a user deletes them.
func TestFixedCopies(t *testing.T) {
	c := start(t)
	ns := c.namespaces(nil, "a")
	fixed := configMap("fixed", map[string]string{"k": "v1"})
	fixed["immutable"] = true
	obj := c.distribute(fixed, v1beta1.ResourceDistributionTargets{IncludedNamespaces: list(ns...)})
	c.counts(obj, 1, 1)
	begin := controllertest.End(t, c.cp.AuditLog())
	change(c, obj, func(o *v1beta1.ResourceDistribution) {
		o.Spec.Resource.Raw = []byte(strings.Replace(string(o.Spec.Resource.Raw), `"v1"}`, `"v2"}`, 1))
	})
	c.counts(obj, 1, 0)
	if diff := cmp.Diff(map[string][]string{"UpdateResourceFailed": ns}, failing(obj)); diff != "" {
		t.Errorf("conditions (-want +got):\n%s", diff)
	}
	copied := c.configMap(ns[0], "fixed", value("k", "v1"))
	if got := c.writes(begin); len(got) > 0 {
		t.Errorf("writes %q", got)
	}
	if err := c.Delete(t.Context(), copied); err != nil {
		t.Fatal(err)
	}
	c.configMap(ns[0], "fixed", value("k", "v2"))
	c.counts(obj, 1, 1)
}

// TestAllNamespaces: new namespaces get a copy, deleted namespaces no longer count, and system namespaces get none.
func TestAllNamespaces(t *testing.T) {
	c := start(t)
	ns := c.namespaces(nil, "a", "b")
	var all corev1.NamespaceList
	if err := c.List(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	others := list()
	for i := range all.Items {
		if name := all.Items[i].Name; !strings.HasPrefix(name, c.prefix) && name != "kube-system" {
			others.List = append(others.List, v1beta1.ResourceDistributionNamespace{Name: name})
		}
	}
	obj := c.distribute(configMap("everywhere", nil), v1beta1.ResourceDistributionTargets{AllNamespaces: true, ExcludedNamespaces: others})
	c.counts(obj, 2, 2)
	c.namespaces(nil, "c")
	c.counts(obj, 3, 3)
	if err := c.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns[0]}}); err != nil {
		t.Fatal(err)
	}
	c.counts(obj, 2, 2)
	c.gone("kube-system", "everywhere")
}

// TestTakeOver creates the objects that OpenKruise 1.9 has left, and checks that no copy is written. Later changes
// are copied.
func TestTakeOver(t *testing.T) {
	c := idle(t)
	ns := c.namespaces(nil, "fixtures")
	text, err := os.ReadFile("testdata/openkruise-1.9.yaml")
	if err != nil {
		t.Fatal(err)
	}
	path := t.TempDir() + "/objects.yaml"
	if err := os.WriteFile(path, []byte(strings.NewReplacer("name: fixtures", "name: "+ns[0], "name: default", "name: absent").Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
	controllertest.Restore(t, c, ns[0], path)
	obj := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: "share"}}
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), obj) })
	begin := controllertest.End(t, c.cp.AuditLog())
	c.run()
	// OpenKruise's hash differs from this project's hash only in the listed namespaces; the resource is the same.
	c.counts(obj, 2, 1)
	if got := c.writes(begin); len(got) > 0 {
		t.Errorf("writes by the switch: %q", got)
	}
	change(c, obj, func(o *v1beta1.ResourceDistribution) {
		o.Spec.Resource.Raw = []byte(strings.Replace(string(o.Spec.Resource.Raw), `"one"`, `"two"`, 1))
	})
	c.configMap(ns[0], "game-demo", value("player", "two"))
	if got := c.writes(begin); len(got) != 1 {
		t.Errorf("writes for a change: %q", got)
	}
}

// TestContested: if another client changes a copy as often as the controller restores it, an event says so, and the
// number of writes stays limited.
func TestContested(t *testing.T) {
	c := start(t)
	ns := c.namespaces(nil, "a")
	obj := c.distribute(configMap("fought", map[string]string{"k": "v"}), v1beta1.ResourceDistributionTargets{IncludedNamespaces: list(ns...)})
	c.counts(obj, 1, 1)
	watch, err := c.Watch(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(ns[0]), client.MatchingFields{"metadata.name": "fought"})
	if err != nil {
		t.Fatal(err)
	}
	ended, fought := make(chan struct{}), 0
	go func() {
		defer close(ended)
		for event := range watch.ResultChan() {
			if copied, ok := event.Object.(*corev1.ConfigMap); ok && copied.Data["k"] == "v" {
				fought++
				_ = c.Patch(t.Context(), copied, client.RawPatch(types.MergePatchType, []byte(`{"data":{"k":"mine"}}`)))
			}
		}
	}()
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		for _, condition := range obj.Status.Conditions {
			if condition.Type == v1beta1.ResourceDistributionUpdateResourceFailed && strings.HasPrefix(condition.Reason, "CopyContested") {
				return nil
			}
		}
		return fmt.Errorf("conditions %+v", obj.Status.Conditions)
	})
	watch.Stop()
	<-ended
	if fought > 5 {
		t.Errorf("the copy was put right %d times before that", fought-1)
	}
	c.configMap(ns[0], "fought", value("k", "v"))
	c.counts(obj, 1, 1)
}
