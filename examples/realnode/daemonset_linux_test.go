package realnode_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
)

// daemonSet is a DaemonSet. It has only one Pod, because there is only one Node.
type daemonSet struct {
	client.Client
	key    client.ObjectKey
	update v1beta1.RollingUpdateDaemonSet
}

func (f *fixture) daemonSet(name string) *daemonSet {
	return &daemonSet{
		Client: f, key: client.ObjectKey{Namespace: f.namespace, Name: name},
		update: v1beta1.RollingUpdateDaemonSet{RollingUpdateType: v1beta1.InPlaceIfPossibleRollingUpdateType, MaxUnavailable: ptr.To(intstr.FromInt32(1))},
	}
}

func (d *daemonSet) name() string          { return d.key.Name }
func (d *daemonSet) revisionLabel() string { return apps.LabelRevision }

func (d *daemonSet) create(ctx context.Context, pods int, template *corev1.PodTemplateSpec) error {
	if pods != 1 {
		return fmt.Errorf("a DaemonSet of %d Pods: there is one Node", pods)
	}
	set := &v1beta1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: d.key.Namespace, Name: d.key.Name}}
	set.Spec.Template, set.Spec.Selector = *template, &metav1.LabelSelector{MatchLabels: template.Labels}
	set.Spec.UpdateStrategy = v1beta1.DaemonSetUpdateStrategy{Type: v1beta1.RollingUpdateDaemonSetStrategyType, RollingUpdate: &d.update}
	return d.Create(ctx, set)
}

func (d *daemonSet) edit(ctx context.Context, change func(*corev1.PodTemplateSpec)) error {
	var set v1beta1.DaemonSet
	if err := d.Get(ctx, d.key, &set); err != nil {
		return err
	}
	change(&set.Spec.Template)
	return d.Update(ctx, &set)
}

func (d *daemonSet) isSettled(ctx context.Context) error {
	var set v1beta1.DaemonSet
	if err := d.Get(ctx, d.key, &set); err != nil {
		return err
	}
	if s := set.Status; s.ObservedGeneration != set.Generation || s.DesiredNumberScheduled != 1 || s.UpdatedNumberScheduled != 1 || s.NumberAvailable != 1 {
		return fmt.Errorf("DaemonSet %s, generation %d: %+v", set.Name, set.Generation, s)
	}
	return d.isResized(ctx)
}

// isResized returns nil when the kubelet has resized the Pods. The status of a DaemonSet does not show a resize,
// because a Pod stays available while the kubelet resizes the Pod.
func (d *daemonSet) isResized(ctx context.Context) error {
	var pods corev1.PodList
	if err := d.List(ctx, &pods, client.InNamespace(d.key.Namespace), client.MatchingLabels{"app": d.key.Name}); err != nil {
		return err
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		for _, container := range pod.Spec.Containers {
			status := podstate.ContainerStatus(pod, container.Name)
			if status == nil || pod.Status.ObservedGeneration != pod.Generation || status.Resources != nil && !equality.Semantic.DeepEqual(*status.Resources, container.Resources) {
				return fmt.Errorf("Pod %s: container %s is not resized yet", pod.Name, container.Name)
			}
		}
	}
	return nil
}

func TestDaemonSetImage(t *testing.T) {
	f := startManager(t, manager.Options{})
	f.imageInPlace(f.daemonSet("agent"), 1)
}

func TestDaemonSetResize(t *testing.T) {
	f := startManager(t, manager.Options{Gates: resizeGates()})
	f.resizes(t, func(f *fixture, name string) workload { return f.daemonSet(name) })
}

// TestDaemonSetSurge: with a real kubelet, which needs time to start and end Pods, the new Pod is in service before
// the old Pod is deleted.
func TestDaemonSetSurge(t *testing.T) {
	f := startManager(t, manager.Options{})
	w := f.daemonSet("agent")
	w.update = v1beta1.RollingUpdateDaemonSet{MaxSurge: ptr.To(intstr.FromInt32(1)), MaxUnavailable: ptr.To(intstr.FromInt32(0))}
	before := f.create(w, 1)
	served := false
	controllertest.Watch(t, f, f.namespace, func(pods map[types.UID]*corev1.Pod) {
		ready := 0
		for _, pod := range pods {
			if podstate.IsReady(pod) && pod.DeletionTimestamp == nil {
				ready++
			}
		}
		if served = served || ready > 0; served && ready == 0 {
			t.Error("no Pod of the Node is ready")
		}
		if len(pods) > 2 {
			t.Errorf("the Node has %d Pods", len(pods))
		}
	})
	after := f.change(w, setImage(0, f.image("v2")))
	if before[0].UID == after[0].UID || before[0].Spec.NodeName != after[0].Spec.NodeName {
		t.Errorf("Pod %s on %s, before %s on %s", after[0].UID, after[0].Spec.NodeName, before[0].UID, before[0].Spec.NodeName)
	}
	f.serves(&after[0], "v2")
}
