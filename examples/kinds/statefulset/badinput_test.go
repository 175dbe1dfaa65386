package statefulset_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

type edit = func(*v1beta1.StatefulSet)

// badInput describes a StatefulSet whose spec the controller cannot fulfil.
type badInput struct {
	name     string
	replicas int32
	create   []edit
	// others returns objects of other owners with names that the controller needs. The objects exist from the start,
	// and the controller must not change them.
	others func(c *cluster, name string) []client.Object
	// running are the ordinals of the StatefulSet's Pods before the edit. then is the edit. raw is an edit as a JSON
	// patch with values that do not fit the Go type.
	running []int
	then    edit
	raw     string
	// want are the ordinals of the StatefulSet's Pods in the end. If Pods are missing or cannot be updated, condition
	// and event are the names of the condition and event with the reason, and says contains texts in the message.
	want      []int
	condition string
	reason    string
	says      []string
	event     string
}

func reserve(entries ...string) edit {
	return func(set *v1beta1.StatefulSet) {
		for _, entry := range entries {
			set.Spec.ReserveOrdinals = append(set.Spec.ReserveOrdinals, intstr.Parse(entry))
		}
	}
}

func replicas(n int32) edit {
	return func(set *v1beta1.StatefulSet) { set.Spec.Replicas = &n }
}

func follows(set *v1beta1.StatefulSet) {
	set.Spec.VolumeClaimUpdateStrategy.Type = v1beta1.ClaimsOnPodRollingUpdate
}

func goWith(set *v1beta1.StatefulSet) {
	const remove = appsv1.DeletePersistentVolumeClaimRetentionPolicyType
	set.Spec.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{WhenDeleted: remove, WhenScaled: remove}
}

// somebody returns an owner reference to an existing object. The garbage collector would delete dependents of an
// owner that does not exist.
func (c *cluster) somebody() *metav1.OwnerReference {
	c.t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, GenerateName: "somebody-"}}
	if err := c.Create(c.t.Context(), owner); err != nil {
		c.t.Fatal(err)
	}
	return metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
}

// foreignPod returns a Pod of another owner that waits at a scheduling gate, so no other component writes the Pod.
func (c *cluster) foreignPod(name, app string, owner *metav1.OwnerReference) client.Object {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Labels: map[string]string{"app": app}},
		Spec: corev1.PodSpec{
			SchedulingGates: []corev1.PodSchedulingGate{{Name: "example.test/wait"}}, Containers: []corev1.Container{{Name: "app", Image: "example.test/other"}},
		},
	}
	if owner != nil {
		pod.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return pod
}

// foreignClaim returns a claim of another owner without a class, so no volume is bound to the claim.
func (c *cluster) foreignClaim(name string, owner *metav1.OwnerReference, finalizers ...string) client.Object {
	set := &v1beta1.StatefulSet{Spec: v1beta1.StatefulSetSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{}}}}}}
	withClaims("", "1Gi")(set)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name, Finalizers: finalizers}, Spec: set.Spec.VolumeClaimTemplates[0].Spec,
	}
	if owner != nil {
		claim.OwnerReferences = []metav1.OwnerReference{*owner}
	}
	return claim
}

// badOrdinals returns cases in which numbers are invalid, or too few ordinals are left.
func badOrdinals() []badInput {
	invalid := func(name string, code string, then edit, says ...string) badInput {
		return badInput{
			name: name, replicas: 2, running: []int{0, 1}, then: then, want: []int{0, 1},
			condition: apps.ConditionInvalidSpec, reason: code, says: says, event: apps.EventFailedUpdate,
		}
	}
	undecodable := invalid("undecodable", "Undecodable", nil, "spec.reserveOrdinals[1]", "3000000000")
	undecodable.raw = `{"spec":{"reserveOrdinals":[1,3000000000]}}`
	huge := map[string]badInput{
		"huge":    {replicas: 1, create: []edit{reserve("0-2000000000")}, want: []int{2000000001}},
		"overlap": {replicas: 2, create: []edit{reserve("3-9", "5-20", "0-2", "0004-022", "24")}, want: []int{23, 25}},
		"last": {
			replicas: 1, create: []edit{func(set *v1beta1.StatefulSet) { set.Spec.Ordinals = startAt(2147483647) }}, want: []int{2147483647},
		},
	}
	cases := []badInput{
		undecodable,
		invalid("backwards", "InvalidValue", reserve("7-3"), "spec.reserveOrdinals[0]", "7-3", "backwards"),
		invalid("junk", "InvalidValue", reserve("1", "a-b", "1-", "1-2-3", "99999999999999999999"),
			"spec.reserveOrdinals[1]", "a-b", "spec.reserveOrdinals[2]", "spec.reserveOrdinals[3]", "spec.reserveOrdinals[4]", "99999999999999999999"),
		invalid("empty", "InvalidValue", func(set *v1beta1.StatefulSet) {
			set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromString(""), intstr.FromString("-3")}
		}, "spec.reserveOrdinals[0]", "spec.reserveOrdinals[1]", "-3"),
		invalid("toohigh", "InvalidValue", func(set *v1beta1.StatefulSet) { set.Spec.Ordinals = startAt(2147483647) }, "spec.replicas", "2147483647"),
		invalid("full", "InvalidValue", reserve("1-2147483647"), "spec.replicas", "only 1 ordinals are free"),
		invalid("toomany", "InvalidValue", func(set *v1beta1.StatefulSet) {
			replicas(2147483647)(set)
			set.Spec.Ordinals = startAt(2)
		}, "spec.replicas", "2147483647"),
	}
	for _, name := range slices.Sorted(maps.Keys(huge)) {
		tc := huge[name]
		tc.name = name
		cases = append(cases, tc)
	}
	return cases
}

// badNeighbours returns cases in which Pods and PersistentVolumeClaims of other owners have names or labels that the
// StatefulSet's Pods and claims need.
func badNeighbours() []badInput {
	return []badInput{
		{
			name: "taken", replicas: 4, want: []int{0, 3},
			others: func(c *cluster, name string) []client.Object {
				return []client.Object{c.foreignPod(name+"-1", name, c.somebody()), c.foreignPod(name+"-2", "other", nil)}
			},
			condition: apps.ConditionFailedCreatePod, reason: "NameTaken", says: []string{"taken-1", "taken-2"}, event: apps.EventFailedCreate,
		},
		{
			name: "greedy", replicas: 2, want: []int{0, 1},
			others: func(c *cluster, name string) []client.Object {
				return []client.Object{c.foreignPod(name+"-7", name, c.somebody()), c.foreignPod("not"+name+"-0", name, nil), c.foreignPod(name+"-01", name, nil)}
			},
		},
		{
			name: "claims", replicas: 4, create: []edit{withClaims("", "1Gi")}, want: []int{0, 1, 3},
			others: func(c *cluster, name string) []client.Object {
				return []client.Object{
					c.foreignClaim("data-"+name+"-0", c.somebody()), c.foreignClaim("data-"+name+"-1", nil), c.foreignClaim("data-"+name+"-2", nil, "example.test/hold"),
				}
			},
			condition: apps.ConditionFailedCreatePod, reason: "ClaimInTheWay", says: []string{"data-claims-2"},
		},
		{
			name: "borrowed", replicas: 1, create: []edit{withClaims("", "1Gi"), goWith}, running: []int{0}, then: replicas(0),
			others: func(c *cluster, name string) []client.Object {
				return []client.Object{c.foreignClaim("data-"+name+"-0", c.somebody())}
			},
		},
	}
}

// badVolumes returns cases in which claims cannot be changed to match their template.
func badVolumes(c *cluster) []badInput {
	fixed, growing := c.volumes(0, "1Gi", nil), c.volumes(0, "1Gi", ptr.To(true))
	stuck := func(name, class, code, event string, says ...string) badInput {
		return badInput{
			name: name, replicas: 1, create: []edit{withClaims(class, "1Gi"), follows}, running: []int{0}, want: []int{0}, then: withClaims(class, "2Gi"),
			condition: apps.ConditionFailedUpdatePod, reason: code, says: says, event: event,
		}
	}
	another := stuck("another", "", "ClaimOfAnother", apps.EventFailedUpdateClaim, "data-another-0", "ConfigMap")
	another.others = func(c *cluster, name string) []client.Object {
		return []client.Object{c.foreignClaim("data-"+name+"-0", c.somebody())}
	}
	differs := stuck("differs", fixed, "ClaimDiffers", apps.EventFailedUpdateClaim, "data-differs-0", "spec.storageClassName", growing)
	differs.then = withClaims(growing, "2Gi")
	return []badInput{
		another, differs,
		stuck("fixed", fixed, "ClassCannotExpand", apps.EventFailedResize, "spec.volumeClaimTemplates[data]", "StorageClass "+fixed),
		// The API server refuses to enlarge a claim that has no volume.
		stuck("unbound", growing, "", apps.EventFailedResize, "data-unbound-0", "2Gi"),
		{name: "smaller", replicas: 1, create: []edit{withClaims(fixed, "2Gi"), follows}, running: []int{0}, want: []int{0}, then: withClaims(fixed, "1Gi")},
		{
			name: "inplaceonly", replicas: 1, running: []int{0}, want: []int{0},
			create: []edit{func(set *v1beta1.StatefulSet) {
				set.Spec.UpdateStrategy.RollingUpdate.PodUpdatePolicy = v1beta1.InPlaceOnly
			}},
			then: func(set *v1beta1.StatefulSet) {
				set.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: "A", Value: "1"}}
			},
			condition: apps.ConditionFailedUpdatePod, reason: "ImmutableField", says: []string{"spec.containers[app].env"}, event: apps.EventFailedUpdatePodInPlace,
		},
	}
}

// TestBadInput: for each spec that was stored without admission and that the controller cannot fulfil, a condition
// and an event give the reason, and the controller does its other work. Objects of other owners are not changed. Pods
// and claims of an invalid StatefulSet are not changed either.
func TestBadInput(t *testing.T) {
	t.Parallel()
	c := idle(t)
	cases := slices.Concat(badOrdinals(), badNeighbours(), badVolumes(c))
	others := map[string]string{}
	for i := range cases {
		tc := &cases[i]
		if tc.others != nil {
			for _, other := range tc.others(c, tc.name) {
				c.createForeign(other)
				others[keyOf(other)] = other.GetResourceVersion()
			}
		}
		if err := c.Create(t.Context(), c.statefulSet(tc.name, tc.replicas, tc.create...)); err != nil {
			t.Fatal(err)
		}
	}
	c.run("StatefulSetStartOrdinal=true,StatefulSetAutoResizePVCGate=true")
	for i := range cases {
		if tc := &cases[i]; tc.then == nil && tc.raw == "" {
			c.untilRuns(tc, tc.want)
		} else {
			c.untilRuns(tc, tc.running)
		}
	}
	before := c.versions()
	for i := range cases {
		c.spoil(&cases[i])
	}
	for i := range cases {
		c.untilTold(&cases[i])
		c.untilRuns(&cases[i], cases[i].want)
	}
	c.create(c.statefulSet("witness", 2), 0, 1) // by then any wrong write would have happened
	after := c.versions()
	for key, version := range before {
		if strings.HasPrefix(key, "Pod borrowed-") {
			continue // the Pod is no longer wanted
		}
		if after[key] != version {
			t.Errorf("%s was touched: version %s, now %q", key, version, after[key])
		}
	}
	for key, version := range others {
		if after[key] != version {
			t.Errorf("%s is somebody else's and was touched: version %s, now %q", key, version, after[key])
		}
	}
}

func keyOf(obj client.Object) string {
	if _, ok := obj.(*corev1.Pod); ok {
		return "Pod " + obj.GetName()
	}
	return "claim " + obj.GetName()
}

// createForeign creates an object. If the object has a finalizer, createForeign also begins the deletion, which does
// not end because of the finalizer.
func (c *cluster) createForeign(obj client.Object) {
	c.t.Helper()
	held := len(obj.GetFinalizers()) > 0
	if err := c.Create(c.t.Context(), obj); err != nil {
		c.t.Fatal(err)
	}
	if !held {
		return
	}
	c.t.Cleanup(func() {
		_ = c.Patch(context.WithoutCancel(c.t.Context()), obj, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
	})
	if err := c.Delete(c.t.Context(), obj); err != nil {
		c.t.Fatal(err)
	}
	// The protection controller removes its finalizer when it finds that no Pod uses the claim.
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		if len(obj.GetFinalizers()) > 1 {
			return fmt.Errorf("finalizers %v", obj.GetFinalizers())
		}
		return nil
	})
}

// spoil makes the test case's edit of the StatefulSet. No webhook checks the edit.
func (c *cluster) spoil(tc *badInput) {
	c.t.Helper()
	if tc.then != nil {
		c.change(tc.name, tc.then)
	}
	if tc.raw != "" {
		set := &v1beta1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: tc.name}}
		if err := c.Patch(c.t.Context(), set, client.RawPatch(types.MergePatchType, []byte(tc.raw))); err != nil {
			c.t.Fatal(err)
		}
	}
}

// versions returns the resource versions of all Pods and claims.
func (c *cluster) versions() map[string]string {
	c.t.Helper()
	var pods corev1.PodList
	var claims corev1.PersistentVolumeClaimList
	if err := errors.Join(c.List(c.t.Context(), &pods, client.InNamespace(c.namespace)), c.List(c.t.Context(), &claims, client.InNamespace(c.namespace))); err != nil {
		c.t.Fatal(err)
	}
	out := map[string]string{}
	for i := range pods.Items {
		out[keyOf(&pods.Items[i])] = pods.Items[i].ResourceVersion
	}
	for i := range claims.Items {
		out[keyOf(&claims.Items[i])] = claims.Items[i].ResourceVersion
	}
	return out
}

// untilRuns waits until the StatefulSet controls exactly the Pods of the ordinals. The Pods must be ready, unless no
// volume is bound to their claims.
func (c *cluster) untilRuns(tc *badInput, want []int) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		set, err := c.get(ctx, tc.name)
		if err != nil {
			return err
		}
		pods, err := c.pods(ctx, tc.name)
		if err != nil {
			return err
		}
		var got []int
		for _, pod := range pods {
			ordinal, _ := ordinals.OfPod(tc.name, pod)
			if metav1.IsControlledBy(pod, set) {
				got = append(got, ordinal)
			}
		}
		// Pods whose claims have no volume are never ready.
		if waits := len(set.Spec.VolumeClaimTemplates) > 0; !slices.Equal(got, want) || !waits && len(want) > 0 && int(set.Status.AvailableReplicas) != len(want) {
			return fmt.Errorf("%s: Pods %v, %d available, want %v; conditions %+v", tc.name, got, set.Status.AvailableReplicas, want, set.Status.Conditions)
		}
		return nil
	})
}

// untilTold waits until the controller has observed the newest spec. The condition and the event must exist, or
// neither if the spec is correct.
func (c *cluster) untilTold(tc *badInput) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		set, err := c.get(ctx, tc.name)
		if err != nil {
			return err
		}
		if set.Status.ObservedGeneration != set.Generation {
			return fmt.Errorf("%s: generation %d of %d", tc.name, set.Status.ObservedGeneration, set.Generation)
		}
		if tc.condition == "" {
			if len(set.Status.Conditions) > 0 {
				return fmt.Errorf("%s: conditions %+v", tc.name, set.Status.Conditions)
			}
			return nil
		}
		got := set.Status.Conditions.Find(tc.condition)
		if got == nil || tc.reason != "" && got.Reason != tc.reason || len(set.Status.Conditions) != 1 {
			return fmt.Errorf("%s: conditions %+v, want %s %s alone", tc.name, set.Status.Conditions, tc.condition, tc.reason)
		}
		for _, text := range tc.says {
			if !strings.Contains(got.Message, text) {
				return fmt.Errorf("%s: it says %q, want %q in it", tc.name, got.Message, text)
			}
		}
		events, err := c.events(ctx, tc.name)
		if err == nil && tc.event != "" && !slices.Contains(events, tc.event) {
			return fmt.Errorf("%s: events %v, want %s", tc.name, events, tc.event)
		}
		return err
	})
}

// events returns the reasons of the events about a StatefulSet.
func (c *cluster) events(ctx context.Context, name string) ([]string, error) {
	var list eventsv1.EventList
	err := c.List(ctx, &list, client.InNamespace(c.namespace))
	seen := map[string]bool{}
	for i := range list.Items {
		if about := list.Items[i].Regarding; about.Kind == "StatefulSet" && about.Name == name {
			seen[list.Items[i].Reason] = true
		}
	}
	return slices.Sorted(maps.Keys(seen)), err
}

// untilEvents waits for exactly the wanted events of a StatefulSet.
func (c *cluster) untilEvents(name string, want ...string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		got, err := c.events(ctx, name)
		if err != nil {
			return err
		}
		if diff := cmp.Diff(want, got); diff != "" {
			return fmt.Errorf("events of %s (-want +got):\n%s", name, diff)
		}
		return nil
	})
}
