package daemon_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestEnvFromMetadata: if a container has an environment variable with the value of an annotation, a change of the
// annotation is an in-place update. The agent restarts only this container, once, and reports the new value. The
// agent has only the permissions of the manifests.
func TestEnvFromMetadata(t *testing.T) {
	n := newNode(t)
	controllertest.Serve(t, n.cp, n, manager.Options{})
	n.installRights()
	n.run(n.account(n.name))
	set := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "web"},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}, Annotations: map[string]string{"color": "blue"}},
				Spec: corev1.PodSpec{NodeName: n.name, TerminationGracePeriodSeconds: ptr.To(int64(0)), Containers: []corev1.Container{
					{Name: "app", Image: "app:1", Env: []corev1.EnvVar{{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['color']"},
					}}}},
					{Name: "log", Image: "log:1"},
				}},
			},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: v1beta1.InPlaceOnly}},
		},
	}
	if err := n.Create(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	settled := func(color string) *corev1.Pod {
		t.Helper()
		var pod *corev1.Pod
		controlplanetest.Eventually(t, within, func(ctx context.Context) error {
			var pods corev1.PodList
			if err := n.List(ctx, &pods, client.InNamespace(n.namespace), client.MatchingLabels{"app": "web"}); err != nil || len(pods.Items) != 1 {
				return fmt.Errorf("%d Pods, %w", len(pods.Items), err)
			}
			pod = &pods.Items[0]
			report, err := runtimemeta.Decode(pod.Annotations[apps.AnnotationRuntimeContainersMeta])
			if err != nil || len(report.Containers) != 2 || report.Containers[0].ContainerID != pod.Status.ContainerStatuses[0].ContainerID {
				return fmt.Errorf("report %+v of %+v: %w", report, pod.Status.ContainerStatuses, err)
			}
			if err := n.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
				return err
			}
			if pod.Annotations["color"] != color || set.Status.UpdatedReadyReplicas != 1 || set.Status.ObservedGeneration != set.Generation {
				return fmt.Errorf("color %s, status %+v", pod.Annotations["color"], set.Status)
			}
			return nil
		})
		return pod
	}
	before := settled("blue")
	set.Spec.Template.Annotations["color"] = "green"
	if err := n.Update(t.Context(), set); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	after := settled("green")
	t.Logf("the update took %s", time.Since(began).Round(10*time.Millisecond))
	if got := n.restarts(after); after.UID != before.UID || got != "app 1, log 0" {
		t.Errorf("restarts %s, UID %s, before %s", got, after.UID, before.UID)
	}
}
