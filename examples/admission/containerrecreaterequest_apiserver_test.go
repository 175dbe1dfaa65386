package admission_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
)

// podOn creates a new Node, and a Pod whose status says that the Pod runs on the Node.
func (c *cluster) podOn(t *testing.T, name string, nodeLabels map[string]string) *corev1.Pod {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: c.namespace + "-" + name, Labels: nodeLabels}}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: c.namespace, Name: name},
		Spec: corev1.PodSpec{
			NodeName: node.Name, TerminationGracePeriodSeconds: new(int64(7)),
			Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}, {Name: "log", Image: "example.test/log:v1"}},
		},
	}
	for _, object := range []client.Object{node, pod} {
		if err := c.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { _ = c.Delete(t.Context(), node) })
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{
		{Name: "app", ContainerID: "containerd://a", RestartCount: 3}, {Name: "log"},
	}}
	if err := c.Status().Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	return pod
}

// TestContainerRecreateRequestsOnTheAPIServer writes and reads requests in both versions.
func TestContainerRecreateRequestsOnTheAPIServer(t *testing.T) {
	c := start(t)
	pod := c.podOn(t, "web-0", map[string]string{"type": "virtual-kubelet"})
	const kind = "ContainerRecreateRequest"
	for _, version := range []string{"v1alpha1", "v1beta1"} {
		name := "restart-" + version
		t.Run("4.1, CR-3 "+version, func(t *testing.T) {
			c.create(smallOf(t, "ContainerRecreateRequest", version, "  strategy: {orderedRecreate: true, unreadyGracePeriodSeconds: 3}\n  activeDeadlineSeconds: 60\n"), name)
			for _, read := range []string{"v1alpha1", "v1beta1"} {
				object := c.getKind(kind, read, name)
				wantLabels := tree{
					"crr.apps.kruise.io/active": "true", "crr.apps.kruise.io/node-name": pod.Spec.NodeName, "crr.apps.kruise.io/pod-uid": string(pod.UID),
					"type": "virtual-kubelet",
				}
				if diff := cmp.Diff(wantLabels, object["metadata"].(tree)["labels"]); diff != "" {
					t.Errorf("labels (-want +got):\n%s", diff)
				}
				wantSpec := tree{
					"podName": "web-0", "activeDeadlineSeconds": 60.0,
					"containers": []any{tree{"name": "app", "statusContext": tree{"containerID": "containerd://a", "restartCount": 3.0}}},
					"strategy": tree{
						"failurePolicy": "Fail", "orderedRecreate": true, "unreadyGracePeriodSeconds": 3.0, "terminationGracePeriodSeconds": 7.0,
					},
				}
				if diff := cmp.Diff(wantSpec, object["spec"]); diff != "" {
					t.Errorf("spec, read as %s (-want +got):\n%s", read, diff)
				}
			}
		})
	}
	t.Run("CR-40 a manager of v1beta1 writes the status, an agent of v1alpha1 reads it", func(t *testing.T) {
		stored := c.named(c.getKind(kind, "v1beta1", "restart-v1beta1"), "restart-v1beta1")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
			t.Fatal(err)
		}
		stored.Object["status"] = tree{
			"phase":                   "Recreating",
			"containerStatusSnapshot": []any{tree{"name": "app", "ready": true, "restartCount": 3, "containerID": "containerd://ab12"}},
			"conditions": []any{tree{
				"type": "PreRecreateGrace", "status": "True", "reason": "PreRecreateGrace", "message": "", "lastTransitionTime": "2026-03-01T02:00:03Z",
			}},
		}
		if err := c.Status().Update(t.Context(), stored); err != nil {
			t.Fatal(err)
		}
		shown := c.getKind(kind, "v1alpha1", "restart-v1beta1")
		annotations, _ := shown["metadata"].(tree)["annotations"].(tree)
		want := tree{
			apps.AnnotationRequestSyncContainerStatuses: `[{"name":"app","ready":true,"restartCount":3,"containerID":"containerd://ab12"}]`,
			apps.AnnotationRequestUnreadyAcquired:       "2026-03-01T02:00:03Z",
		}
		if diff := cmp.Diff(want, annotations); diff != "" {
			t.Errorf("annotations (-want +got):\n%s", diff)
		}
		// An agent writes the status in another version, and no field of the object is lost.
		agent := c.named(shown, "restart-v1beta1")
		if err := c.Get(t.Context(), client.ObjectKeyFromObject(agent), agent); err != nil {
			t.Fatal(err)
		}
		agent.Object["status"].(tree)["message"] = "hello"
		if err := c.Status().Update(t.Context(), agent); err != nil {
			t.Fatal(err)
		}
		wantStatus := decoded(t, stored.Object)["status"].(tree)
		wantStatus["message"] = "hello"
		if diff := cmp.Diff(wantStatus, c.getKind(kind, "v1beta1", "restart-v1beta1")["status"]); diff != "" {
			t.Errorf("status (-want +got):\n%s", diff)
		}
	})
	t.Run("CR-2 what is not valid is refused as such", func(t *testing.T) {
		for path, value := range map[string]any{"/spec/podName": "web-1", "/spec/containers/0/name": "log", "/spec/containers/0/ports": []any{tree{"containerPort": 5.0}}} {
			err := c.Create(t.Context(), c.named(admissiontest.Edit(t, smallOf(t, "ContainerRecreateRequest", "v1beta1", ""), path, value), "bad"))
			if !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
	t.Run("CR-4 a request is carried out as it was made", func(t *testing.T) {
		for path, want := range map[string]bool{"/metadata/labels/a": true, "/metadata/labels/crr.apps.kruise.io~1pod-uid": false, "/spec/podName": false} {
			stored := c.named(c.getKind(kind, "v1beta1", "restart-v1alpha1"), "restart-v1alpha1")
			if err := c.Get(t.Context(), client.ObjectKeyFromObject(stored), stored); err != nil {
				t.Fatal(err)
			}
			stored.Object = admissiontest.Edit(t, decoded(t, stored.Object), path, "x")
			if err := c.Update(t.Context(), stored); (err == nil) != want || !want && !apierrors.IsInvalid(err) {
				t.Errorf("%s: %v, want it accepted: %t", path, err, want)
			}
		}
	})
}
