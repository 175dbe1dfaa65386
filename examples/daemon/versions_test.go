package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/install"
)

// removeCRD removes the CRD of ContainerRecreateRequests, and so all requests.
func (n *node) removeCRD(ctx context.Context) error {
	crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: "containerrecreaterequests.apps.kruise.io"}}
	if err := n.Delete(ctx, crd); client.IgnoreNotFound(err) != nil {
		return err
	}
	err := n.Get(ctx, client.ObjectKeyFromObject(crd), crd)
	if err == nil {
		return errors.New("the CRD is still there")
	}
	return client.IgnoreNotFound(err)
}

// installReleased replaces the CRD of ContainerRecreateRequests by the CRD of OpenKruise 1.9.0, until the test ends.
func (n *node) installReleased() {
	n.t.Helper()
	controlplanetest.Eventually(n.t, within, n.removeCRD)
	text, err := os.ReadFile("../manager/testdata/openkruise-1.9.0-crds/apps.kruise.io_containerrecreaterequests.yaml")
	if err != nil {
		n.t.Fatal(err)
	}
	if err := install.CRD(n.t.Context(), n, text); err != nil {
		n.t.Fatal(err)
	}
	n.t.Cleanup(func() { // the next test installs the CRD with both versions
		err := wait.PollUntilContextTimeout(context.WithoutCancel(n.t.Context()), 100*time.Millisecond, within, true, func(ctx context.Context) (bool, error) {
			return n.removeCRD(ctx) == nil, nil
		})
		if err != nil {
			n.t.Error(err)
		}
	})
}

// TestManagerOfOpenKruise: with a manager of OpenKruise 1.9.0, the API server serves requests only in v1alpha1. The
// manager writes the time at which the Pod became unready into an annotation. The agent then restarts the container,
// with only the permissions of the manifests.
func TestManagerOfOpenKruise(t *testing.T) {
	n := newNode(t)
	n.installRights()
	n.installReleased()
	n.run(n.account(n.name))
	pod := n.pod("web", "app", "log")
	request := n.oldRequest("restart", pod)
	n.untilOld(request, func(status map[string]any) bool { return status["phase"] == "Recreating" })
	if got := n.restarts(pod); got != "app 0, log 0" {
		t.Errorf("restarts %s before the Pod is not ready", got)
	}
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, apps.AnnotationRequestUnreadyAcquired, "2026-01-01T00:00:00Z")
	if err := n.Patch(t.Context(), request, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		t.Fatal(err)
	}
	status := n.untilOld(request, func(status map[string]any) bool { return status["phase"] == "Completed" })
	want := []any{map[string]any{"name": "app", "phase": "Succeeded", "isKilled": true}}
	if diff := cmp.Diff(want, status["containerRecreateStates"]); diff != "" || status["completionTime"] == nil {
		t.Errorf("status %v (-want +got):\n%s", status, diff)
	}
	if got := n.restarts(pod); got != "app 1, log 0" {
		t.Errorf("restarts %s", got)
	}
}

// oldRequest creates a request for container app of a Pod, with the defaults that OpenKruise's webhook sets.
func (n *node) oldRequest(name string, pod *corev1.Pod) *unstructured.Unstructured {
	n.t.Helper()
	app := pod.Status.ContainerStatuses[0]
	request := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"podName": pod.Name, "strategy": map[string]any{"failurePolicy": "Fail", "unreadyGracePeriodSeconds": int64(1), "terminationGracePeriodSeconds": int64(0)},
		"containers": []any{map[string]any{"name": "app", "statusContext": map[string]any{"containerID": app.ContainerID, "restartCount": int64(app.RestartCount)}}},
	}}}
	request.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ContainerRecreateRequest"))
	request.SetNamespace(n.namespace)
	request.SetName(name)
	request.SetLabels(map[string]string{apps.LabelRequestActive: "true", apps.LabelRequestNodeName: n.name, apps.LabelRequestPodUID: string(pod.UID)})
	if err := n.Create(n.t.Context(), request); err != nil {
		n.t.Fatal(err)
	}
	return request
}

// untilOld waits until wanted returns true for the status of a request in v1alpha1.
func (n *node) untilOld(request *unstructured.Unstructured, wanted func(map[string]any) bool) (status map[string]any) {
	n.t.Helper()
	controlplanetest.Eventually(n.t, within, func(ctx context.Context) error {
		if err := n.Get(ctx, client.ObjectKeyFromObject(request), request); err != nil {
			return err
		}
		status, _, _ = unstructured.NestedMap(request.Object, "status")
		if !wanted(status) {
			return fmt.Errorf("status %v", status)
		}
		return nil
	})
	return status
}
