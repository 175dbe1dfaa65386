package persistentpodstate_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestTakeOver creates the objects that OpenKruise 1.9 has left, starts the manager, and checks that no restored
// object is written.
func TestTakeOver(t *testing.T) {
	for _, state := range []string{"settled", "midway"} {
		t.Run("PS "+state, func(t *testing.T) {
			c := idle(t)
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "sim-07", Labels: map[string]string{host: "sim-07", zone: "zone-a"}}}
			if err := c.Create(t.Context(), node); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), node) })
			controllertest.Restore(t, c, c.namespace, "testdata/openkruise-1.9/"+state+".yaml")
			kept := &v1beta1.PersistentPodState{}
			if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "keep"}, kept); err != nil || len(kept.Status.PodStates) != 3 {
				t.Fatalf("%v: %+v", err, kept.Status)
			}
			offset := controllertest.End(t, c.cp.AuditLog())
			c.run()
			witness := c.keep("apps/v1", "StatefulSet", "witness")
			c.create(witness, c.builtIn("witness", 1))
			c.recorded(witness, "witness", 0) // by then any wrong write would have happened
			requests, _ := controllertest.Requests(t, c.cp.AuditLog(), offset, "kruise-manager/")
			for _, r := range requests {
				if r.Namespace == c.namespace && r.IsWrite() && (r.Name == "keep" || r.Resource == "pods" && strings.HasPrefix(r.Name, "db-")) {
					t.Errorf("%s %s %s (%d)", r.Verb, r.Resource, r.Name, r.Code)
				}
			}
		})
	}
}

// TestPods checks the records of Pods, and, through the webhooks, where new Pods of the same names are placed.
func TestPods(t *testing.T) {
	c := idle(t)
	c.run()
	for name, test := range map[string]func(*testing.T, *cluster){
		"PS-1 PS-3 a StatefulSet of Kubernetes": builtInPods, "PS-1 PS-3 PS-6 one of this group": advancedPods,
		"PS-6 PS-7 scaled with a start": scaled, "PS-8 PS-9 generated": generatedStates, "PS-9 a user's": usersState,
		"PS-11 a kind that is listed later": listedKind, "PS 9.1 refused": refusedStates, "PS-3 a topology that is gone": goneTopology,
	} {
		t.Run(name, func(t *testing.T) { test(t, c.on(t)) })
	}
}

func builtInPods(t *testing.T, c *cluster) {
	set := c.builtIn("db", 3)
	set.Spec.Template.Annotations = map[string]string{"pod.io/ip": "10.0.0.1", "other": "x"}
	state := c.keep("apps/v1", "StatefulSet", "db", func(s *v1beta1.PersistentPodStateSpec) {
		s.PreferredPersistentTopology = []v1beta1.PreferredTopologyTerm{{Weight: 7, Preference: v1beta1.NodeTopologyTerm{Keys: []string{host}}}}
		s.RequiredPersistentTopology.Keys = []string{zone}
		s.PersistentPodAnnotations = []v1beta1.PersistentPodAnnotation{{Key: "pod.io/ip"}}
	})
	c.create(set)
	c.untilReady("db-0", "db-1", "db-2")
	first := &corev1.Pod{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: c.namespace, Name: "db-1"}, first); err != nil {
		t.Fatal(err)
	}
	if first.Spec.NodeSelector != nil || first.Annotations[apps.AnnotationInjectedPersistentPodState] != "" {
		t.Errorf("the first Pod of a name is changed: %v %v", first.Spec.NodeSelector, first.Annotations)
	}
	c.create(state)
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(state), state); err != nil {
			return err
		}
		node := &corev1.Node{}
		if err := c.Get(ctx, client.ObjectKey{Name: first.Spec.NodeName}, node); err != nil {
			return err
		}
		want := v1beta1.PodState{
			NodeName: node.Name, NodeTopologyLabels: map[string]string{zone: node.Labels[zone], host: node.Name}, Annotations: map[string]string{"pod.io/ip": "10.0.0.1"},
		}
		if diff := cmp.Diff(want, state.Status.PodStates["db-1"]); diff != "" || len(state.Status.PodStates) != 3 {
			return fmt.Errorf("%d records, that of db-1 (-want +got):\n%s", len(state.Status.PodStates), diff)
		}
		return nil
	})
	record := state.Status.PodStates["db-1"]
	after := c.restart("db-1")
	if diff := cmp.Diff(map[string]string{zone: record.NodeTopologyLabels[zone]}, after.Spec.NodeSelector); diff != "" {
		t.Errorf("node selector (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(prefers(7, host, record.NodeName), after.Spec.Affinity); diff != "" {
		t.Errorf("affinity (-want +got):\n%s", diff)
	}
	if after.Annotations[apps.AnnotationInjectedPersistentPodState] != state.Name || after.Spec.NodeName == "" {
		t.Errorf("annotations %v, Node %q", after.Annotations, after.Spec.NodeName)
	}
	if err := c.Delete(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	c.records(state, nil)
}

func advancedPods(_ *testing.T, c *cluster) {
	set, state := c.advanced("db", 3), c.keep("apps.kruise.io/v1alpha1", "StatefulSet", "db")
	set.Spec.ReserveOrdinals = []intstr.IntOrString{intstr.FromInt32(1)}
	c.create(state, set)
	all := c.recorded(state, "db", 0, 2, 3)
	if after := c.restart("db-2"); after.Spec.NodeName != all["db-2"].NodeName {
		c.t.Errorf("db-2 came back on %s, it ran on %s", after.Spec.NodeName, all["db-2"].NodeName)
	}
	edit(c, set, func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2) })
	c.recorded(state, "db", 0, 2)
	edit(c, set, func(set *v1beta1.StatefulSet) { set.Spec.ReserveOrdinals = nil })
	c.recorded(state, "db", 0, 1)
}

func scaled(_ *testing.T, c *cluster) {
	set, state := c.advanced("db", 3), c.keep("apps.kruise.io/v1beta1", "StatefulSet", "db")
	set.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 5}
	c.create(state, set)
	c.recorded(state, "db", 5, 6, 7)
	edit(c, state, func(state *v1beta1.PersistentPodState) {
		state.Spec.PersistentPodStateRetentionPolicy = v1beta1.PersistentPodStateWhenDeleted
	})
	all := c.recorded(state, "db", 5, 6, 7)
	edit(c, set, func(set *v1beta1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	c.untilGone("db-7", "db-6")
	c.records(state, all)
	edit(c, state, func(state *v1beta1.PersistentPodState) { state.Spec.PersistentPodStateRetentionPolicy = "" })
	c.recorded(state, "db", 5)

	native, of := c.builtIn("native", 2), c.keep("apps/v1", "StatefulSet", "native")
	native.Spec.Ordinals = &appsv1.StatefulSetOrdinals{Start: 3}
	c.create(of, native)
	c.recorded(of, "native", 3, 4)
	edit(c, native, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](1) })
	c.recorded(of, "native", 3)
}

func generatedStates(t *testing.T, c *cluster) {
	set := c.builtIn("db", 1, apps.AnnotationGeneratePersistentPodState+"=true")
	c.create(set)
	state := &v1beta1.PersistentPodState{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "db"}}
	annotate := func(key, value string) {
		edit(c, set, func(set *appsv1.StatefulSet) { metav1.SetMetaDataAnnotation(&set.ObjectMeta, key, value) })
	}
	until := func(want func(*v1beta1.PersistentPodState) bool) {
		t.Helper()
		controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
			if err := c.Get(ctx, client.ObjectKeyFromObject(state), state); err != nil {
				return err
			}
			if !want(state) {
				return fmt.Errorf("%+v", state.Spec)
			}
			return nil
		})
	}
	annotate(apps.AnnotationRequiredPersistentTopology, zone)
	until(func(state *v1beta1.PersistentPodState) bool {
		return metav1.IsControlledBy(state, set) && state.Spec.RequiredPersistentTopology.Keys[0] == zone
	})
	c.recorded(state, "db", 0)
	annotate(apps.AnnotationPersistentPodAnnotations, "pod.io/ip")
	until(func(state *v1beta1.PersistentPodState) bool { return len(state.Spec.PersistentPodAnnotations) == 1 })
	edit(c, state, func(state *v1beta1.PersistentPodState) { state.Spec.RequiredPersistentTopology.Keys = []string{host} }) // a user edits the object
	until(func(state *v1beta1.PersistentPodState) bool {
		return state.Spec.RequiredPersistentTopology.Keys[0] == zone
	})
	annotate(apps.AnnotationPreferredPersistentTopology, host)
	annotate(apps.AnnotationRequiredPersistentTopology, "")
	until(func(state *v1beta1.PersistentPodState) bool {
		return state.Spec.RequiredPersistentTopology == nil && len(state.Spec.PreferredPersistentTopology) == 1 && len(state.Status.PodStates) == 1
	})
	annotate(apps.AnnotationGeneratePersistentPodState, "false")
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error { return c.isGone(ctx, state) })
}

func usersState(t *testing.T, c *cluster) {
	own := c.keep("apps/v1", "StatefulSet", "db")
	own.Name = "db"
	set := c.builtIn("db", 1, apps.AnnotationGeneratePersistentPodState+"=true", apps.AnnotationRequiredPersistentTopology+"="+zone)
	c.create(own, set)
	c.untilEvent(set, apps.EventPersistentPodStateNotGenerated)
	edit(c, set, func(set *appsv1.StatefulSet) { set.Annotations = nil })
	c.recorded(own, "db", 0)
	edit(c, set, func(set *appsv1.StatefulSet) { set.Spec.Replicas = ptr.To[int32](2) })
	c.recorded(own, "db", 0, 1)
	if own.Generation != 1 || own.DeletionTimestamp != nil || own.Spec.RequiredPersistentTopology.Keys[0] != host {
		t.Errorf("the user's has changed: %+v", own)
	}
}

// crd is the CRD of a kind similar to StatefulSets.
const crd = `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"gamesets.game.example.com"},"spec":{
	"group":"game.example.com","scope":"Namespaced","names":{"kind":"GameSet","listKind":"GameSetList","plural":"gamesets","singular":"gameset"},
	"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","x-kubernetes-preserve-unknown-fields":true}}}]}}`

// listedKind adds a workload kind to the ConfigMap, and installs the kind's CRD, while the manager runs.
func listedKind(t *testing.T, c *cluster) {
	definition, list := decoded(t, crd), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: apps.ConfigurationName}}
	state := c.keep("game.example.com/v2", "GameSet", "game")
	if err := c.Create(t.Context(), state.DeepCopy()); !apierrors.IsInvalid(err) {
		t.Fatalf("the kind is not listed: %v", err)
	}
	list.Data = map[string]string{apps.ConfigurationStatefulSetLikes: `{"workloads":[{"Group":"game.example.com","Version":"v1","Kind":"GameSet"}]}`}
	c.create(list)
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = errors.Join(c.Delete(ctx, list), c.Delete(ctx, definition))
	})
	c.create(state)
	c.untilEvent(state, apps.EventInvalidPersistentPodState) // the ConfigMap does not contain the kind yet
	c.create(definition)
	game := decoded(t, `{"apiVersion":"game.example.com/v1","kind":"GameSet","metadata":{"name":"game","namespace":"`+c.namespace+`"},"spec":{"replicas":2,"reserveOrdinals":[0]}}`)
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error { return c.Create(ctx, game) })
	for _, ordinal := range []int{1, 2} {
		c.create(c.podOf(game, ordinal))
	}
	all := c.recorded(state, "game", 1, 2)
	pod := c.podOf(game, 1)
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	c.untilGone("game-1")
	successor := c.podOf(game, 1)
	c.create(successor)
	if successor.Spec.NodeSelector[host] != all["game-1"].NodeName {
		t.Errorf("node selector %v, want %s", successor.Spec.NodeSelector, all["game-1"].NodeName)
	}
	c.recorded(state, "game", 1, 2)

	edit(c, list, func(list *corev1.ConfigMap) { list.Data = nil }) // the ConfigMap no longer contains the kind
	c.untilEvent(state, apps.EventInvalidPersistentPodState)
	controlplanetest.Eventually(t, minute, func(ctx context.Context) error {
		probe := c.podOf(game, 1)
		err := c.Create(ctx, probe, client.DryRunAll)
		if apierrors.IsAlreadyExists(err) {
			err = c.Delete(ctx, c.podOf(game, 1))
		}
		if err == nil && probe.Spec.NodeSelector != nil || err != nil {
			return fmt.Errorf("%w: node selector %v", err, probe.Spec.NodeSelector)
		}
		if probe.UID == "" {
			return errors.New("nothing was created yet")
		}
		return nil
	})
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(state), state); err != nil || len(state.Status.PodStates) != 2 {
		t.Errorf("%v: records %v", err, state.Status.PodStates)
	}
	edit(c, list, func(list *corev1.ConfigMap) {
		list.Data = map[string]string{apps.ConfigurationStatefulSetLikes: `{"workloads":[{"Group":"game.example.com","Version":"v1","Kind":"GameSet"}]}`}
	})
	if err := c.Delete(t.Context(), game); err != nil {
		t.Fatal(err)
	}
	c.records(state, nil)
}

func decoded(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := out.UnmarshalJSON([]byte(text)); err != nil {
		t.Fatal(err)
	}
	return out
}

func prefers(weight int32, key, value string) *corev1.Affinity {
	term := corev1.PreferredSchedulingTerm{Weight: weight}
	term.Preference.MatchExpressions = []corev1.NodeSelectorRequirement{{Key: key, Operator: corev1.NodeSelectorOpIn, Values: []string{value}}}
	return &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.PreferredSchedulingTerm{term}}}
}

// podOf returns a Pod of a workload whose controller does not run.
func (c *cluster) podOf(owner client.Object, ordinal int) *corev1.Pod {
	pod := &corev1.Pod{ObjectMeta: template().ObjectMeta, Spec: template().Spec}
	pod.Namespace, pod.Name = c.namespace, fmt.Sprintf("%s-%d", owner.GetName(), ordinal)
	gvk := owner.GetObjectKind().GroupVersionKind()
	pod.OwnerReferences = []metav1.OwnerReference{{APIVersion: gvk.GroupVersion().String(), Kind: gvk.Kind, Name: owner.GetName(), UID: owner.GetUID(), Controller: ptr.To(true)}}
	return pod
}

func refusedStates(t *testing.T, c *cluster) {
	c.create(c.keep("apps/v1", "StatefulSet", "db"))
	named := func(state *v1beta1.PersistentPodState, name string) *v1beta1.PersistentPodState {
		state.Name = name
		return state
	}
	alpha := decoded(t, `{"apiVersion":"apps.kruise.io/v1alpha1","kind":"PersistentPodState","metadata":{"namespace":"`+c.namespace+`","name":"alpha"},
		"spec":{"targetRef":{"apiVersion":"apps/v1","kind":"StatefulSet","name":"alpha"},"requiredPersistentTopology":{"nodeTopologyKeys":["a b"]}}}`)
	for path, object := range map[string]client.Object{
		"has a PersistentPodState already":                    named(c.keep("apps/v1beta1", "StatefulSet", "db"), "second"),
		"spec.targetRef":                                      c.keep("apps/v1", "Deployment", "web"),
		"spec.requiredPersistentTopology.keys":                c.keep("apps/v1", "StatefulSet", "x", func(s *v1beta1.PersistentPodStateSpec) { s.RequiredPersistentTopology.Keys = []string{} }),
		"spec.requiredPersistentTopology.nodeTopologyKeys[0]": alpha,
		"spec.preferredPersistentTopology[0].weight: Invalid value": c.keep("apps/v1", "StatefulSet", "y", func(s *v1beta1.PersistentPodStateSpec) {
			s.PreferredPersistentTopology = []v1beta1.PreferredTopologyTerm{{Preference: v1beta1.NodeTopologyTerm{Keys: []string{zone}}}}
		}),
	} {
		if err := c.Create(t.Context(), object); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), path) {
			t.Errorf("want 422 with %s: %v", path, err)
		}
	}
}

// goneTopology checks that a new Pod waits if no Node has the recorded labels any more, as with OpenKruise. An event
// says why the Pod waits.
func goneTopology(t *testing.T, c *cluster) {
	node := &corev1.Node{}
	set, state := c.builtIn("db", 1), c.keep("apps/v1", "StatefulSet", "db", func(s *v1beta1.PersistentPodStateSpec) {
		s.RequiredPersistentTopology.Keys = []string{"example.com/rack"}
	})
	set.Spec.Template.Spec.NodeSelector = map[string]string{host: c.nodes()[0].Name}
	if err := c.Get(t.Context(), client.ObjectKey{Name: c.nodes()[0].Name}, node); err != nil {
		t.Fatal(err)
	}
	label := func(value string) {
		t.Helper()
		edit(c, node, func(node *corev1.Node) { node.Labels["example.com/rack"] = value })
	}
	label("r1")
	c.create(state, set)
	c.recorded(state, "db", 0)
	label("r2") // the record gets the new label of the Pod's Node
	c.recorded(state, "db", 0)
	edit(c, node, func(node *corev1.Node) { node.Spec.Unschedulable = true }) // so that nothing is recorded before the label was removed
	if err := c.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: "db-0"}}); err != nil {
		t.Fatal(err)
	}
	label("r3")
	c.untilEvent(state, apps.EventTopologyGone)
	label("r2")
	edit(c, node, func(node *corev1.Node) { node.Spec.Unschedulable = false })
	c.untilReady("db-0")
}

func (c *cluster) untilReady(names ...string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		for _, name := range names {
			pod := &corev1.Pod{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, pod); err != nil {
				return err
			}
			if pod.Status.Phase != corev1.PodRunning {
				return fmt.Errorf("Pod %s is %s", name, pod.Status.Phase)
			}
		}
		return nil
	})
}

func (c *cluster) untilGone(names ...string) {
	c.t.Helper()
	for _, name := range names {
		controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
			return c.isGone(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name}})
		})
	}
}

func (c *cluster) isGone(ctx context.Context, object client.Object) error {
	err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return fmt.Errorf("%s is there: %w", object.GetName(), err)
}

// untilEvent waits for an event of an object.
func (c *cluster) untilEvent(object client.Object, name string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		var list corev1.EventList
		if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		var seen []string
		for i := range list.Items {
			e := &list.Items[i]
			if e.Reason == name && e.InvolvedObject.UID == object.GetUID() {
				return nil
			}
			seen = append(seen, e.Reason+" "+e.InvolvedObject.Name+": "+e.Message)
		}
		return fmt.Errorf("no event %s of %s: %v", name, object.GetName(), seen)
	})
}
