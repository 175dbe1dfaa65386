package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// nodePlaces is the word for the places of a DaemonSet's Pods in the summary.
const nodePlaces = "Nodes"

// daemonSet shows how Pods follow Nodes that join and change, and then an update in place and an update that recreates
// the Pods.
func daemonSet() workload {
	return workload{name: "daemonset", gates: apps.DefaultGates(), nodes: 5, place: nodeOf, places: nodePlaces, tell: tellDaemonSet}
}

func nodeOf(pod *corev1.Pod) string {
	node, err := nodefit.NodeOf(pod)
	if err != nil {
		return ""
	}
	return node
}

func tellDaemonSet(ctx context.Context, s *story) error {
	web := &nodeStory{&subject[*v1beta1.DaemonSet]{
		story: s, kind: "DaemonSet", labels: apps.ReservedDaemonSetLabels(),
		empty:    func() *v1beta1.DaemonSet { return &v1beta1.DaemonSet{} },
		template: func(set *v1beta1.DaemonSet) *corev1.PodTemplateSpec { return &set.Spec.Template },
		isDone: func(set *v1beta1.DaemonSet) bool {
			status, kept := &set.Status, ptr.Deref(set.Spec.UpdateStrategy.RollingUpdate.Partition, intstr.IntOrString{}).IntVal
			return status.ObservedGeneration >= set.Generation && status.NumberAvailable == status.DesiredNumberScheduled &&
				status.NumberMisscheduled == 0 && status.UpdatedNumberScheduled == status.DesiredNumberScheduled-kept
		},
	}}
	for _, p := range []part{
		{
			title: "A DaemonSet -> a Pod on each of the 5 Nodes", act: web.create(newDaemonSet()), settled: web.wants(5), chapter: web.chapter("its Node had none"),
			want: tally{after: "sim-01,sim-02,sim-03,sim-04,sim-05", created: 5},
		},
		{
			title: "Node sim-06 joins -> it gets a Pod", act: web.join("sim-06"), settled: web.wants(6), chapter: web.chapter("its Node has joined"),
			want: tally{before: "sim-01,sim-02,sim-03,sim-04,sim-05", after: "sim-01,sim-02,sim-03,sim-04,sim-05,sim-06", kept: 5, created: 1},
		},
		{
			title: "Node sim-02 is tainted NoExecute -> its Pod goes", act: web.taint("sim-02", true), settled: web.wants(5), chapter: web.chapter("its Node is tainted"),
			want: tally{before: "sim-01,sim-02,sim-03,sim-04,sim-05,sim-06", after: "sim-01,sim-03,sim-04,sim-05,sim-06", kept: 5, deleted: 1},
		},
		{
			title: "The taint is taken off -> sim-02 has a Pod again", act: web.taint("sim-02", false), settled: web.wants(6), chapter: web.chapter("its taint is off"),
			want: tally{before: "sim-01,sim-03,sim-04,sim-05,sim-06", after: "sim-01,sim-02,sim-03,sim-04,sim-05,sim-06", kept: 5, created: 1},
		},
	} {
		if err := s.list(ctx, p); err != nil {
			return err
		}
	}
	return web.update(ctx)
}

// wants returns a function that reports whether the DaemonSet has settled, with Pods on the given number of Nodes.
func (n *nodeStory) wants(nodes int32) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		now, err := n.get(ctx)
		return err == nil && n.isDone(now) && now.Status.DesiredNumberScheduled == nodes, err
	}
}

// update plays the parts that change the template.
func (n *nodeStory) update(ctx context.Context) error {
	const all = "sim-01,sim-02,sim-03,sim-04,sim-05,sim-06"
	partition := func(set *v1beta1.DaemonSet, n int32) {
		set.Spec.UpdateStrategy.RollingUpdate.Partition = ptr.To(intstr.FromInt32(n))
	}
	for _, p := range []struct {
		title  string
		change func(*v1beta1.DaemonSet)
		want   tally
	}{
		{"Image app:v1 -> app:v2, partition 3 -> three in place, two at a time", func(set *v1beta1.DaemonSet) {
			newImage(&set.Spec.Template)
			partition(set, 3)
		}, tally{before: all, after: all, kept: 6, updated: 3}},
		{"Partition 0 -> the rest follows", func(set *v1beta1.DaemonSet) { partition(set, 0) }, tally{before: all, after: all, kept: 6, updated: 3}},
		{"A new environment variable -> all recreated on their Nodes", func(set *v1beta1.DaemonSet) {
			newVariable(&set.Spec.Template)
		}, tally{before: all, after: all, recreated: 6}},
	} {
		e, err := n.edit(ctx, p.change)
		if err != nil {
			return err
		}
		err = n.list(ctx, part{
			title: p.title, chapter: replacedOnNodes(e.why), act: e.write, settled: n.settled, want: p.want, maxUnavailable: outOfService, field: e.field,
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func newDaemonSet() *v1beta1.DaemonSet {
	selector, template := podTemplate(1500 * time.Millisecond)
	return &v1beta1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"},
		Spec: v1beta1.DaemonSetSpec{
			Selector: selector, Template: template,
			UpdateStrategy: v1beta1.DaemonSetUpdateStrategy{
				Type: v1beta1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &v1beta1.RollingUpdateDaemonSet{
					RollingUpdateType: v1beta1.InPlaceIfPossibleRollingUpdateType, MaxUnavailable: ptr.To(intstr.FromInt32(outOfService)),
				},
			},
		},
	}
}

// nodeStory runs the demonstration with a DaemonSet on several Nodes.
type nodeStory struct{ *subject[*v1beta1.DaemonSet] }

// join returns a function that adds a simulated Node.
func (n *nodeStory) join(name string) func(context.Context) error {
	return func(ctx context.Context) error {
		if err := n.client.Create(ctx, controlplane.NewNode(name)); err != nil {
			return fmt.Errorf("adding Node %s: %w", name, err)
		}
		return nil
	}
}

// taint returns a function that adds a taint to a Node, or removes all taints.
func (n *nodeStory) taint(name string, on bool) func(context.Context) error {
	return func(ctx context.Context) error {
		var node corev1.Node
		if err := n.client.Get(ctx, client.ObjectKey{Name: name}, &node); err != nil {
			return fmt.Errorf("reading Node %s: %w", name, err)
		}
		before := node.DeepCopy()
		if node.Spec.Taints = nil; on {
			node.Spec.Taints = []corev1.Taint{{Key: "example.test/broken", Value: "yes", Effect: corev1.TaintEffectNoExecute}}
		}
		if err := n.client.Patch(ctx, &node, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("tainting Node %s: %w", name, err)
		}
		return nil
	}
}

// chapter returns the explanations for a part in which Pods are created and deleted because of changes of Nodes.
func (*nodeStory) chapter(what string) chapter {
	because := func(how string) func(*corev1.Pod) cause {
		return func(pod *corev1.Pod) cause {
			return cause{how: how, why: what, line: how + onNode(pod) + ": " + what}
		}
	}
	return chapter{created: because("created"), deleted: because("deleted")}
}

// onNode describes the revision and the Node of a Pod.
func onNode(pod *corev1.Pod) string {
	return " at revision " + revision.ShortName(pod.Labels[apps.LabelRevision]) + " on " + nodeOf(pod)
}

// replacedOnNodes returns the explanations for an update in which the Pod of each Node is recreated.
func replacedOnNodes(why string) chapter {
	because := func(line string) func(*corev1.Pod) cause {
		return func(pod *corev1.Pod) cause {
			return cause{how: "recreated", why: why, line: line + onNode(pod) + ": " + why}
		}
	}
	return chapter{created: because("created"), deleted: because("deleted")}
}
