package manager_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const requestsCRD = "containerrecreaterequests.apps.kruise.io"

// restartedPods are the workloads of TestRestartsWithoutTheirCRD: kind, and number of Pods.
func restartedPods() map[string]int {
	return map[string]int{"CloneSet": 3, "StatefulSet": 3, "DaemonSet": 5}
}

// TestRestartsWithoutTheirCRD: workloads work with and without the CRD of ContainerRecreateRequests. While the CRD is
// missing, a condition of the workload reports that a requested restart cannot be done, and the restart continues
// once the CRD is installed.
func TestRestartsWithoutTheirCRD(t *testing.T) {
	c := newCluster(t)
	c.install()
	c.dropRequests()
	c.run()
	c.untilWebhooksAnswer()
	for _, step := range []struct {
		name string
		test func(*cluster)
	}{
		{"absent at the start: workloads begin", (*cluster).begins},
		{"absent at the start: a restart says so", func(c *cluster) {
			c.wish()
			c.untilSaid(restart.NotServed, "install CustomResourceDefinition "+requestsCRD)
		}},
		{"absent at the start: updates go on", func(c *cluster) { c.rollsOut("example.test/app:v2") }},
		{"applied: the restart goes on", func(c *cluster) { c.wish(); c.untilSaid(restart.NotServed, requestsCRD); c.returns() }},
		{"removed: the restart says so", func(c *cluster) { c.dropRequests(); c.untilSaid(restart.NotServed, requestsCRD) }},
		{"removed: updates go on", func(c *cluster) { c.rollsOut("example.test/app:v3") }},
		{"applied again: the restart goes on", func(c *cluster) { c.wish(); c.returns() }},
		{"another version: the restart says so", func(c *cluster) { c.serveRequests(false); c.untilSaid(restart.NotServed, requestsCRD) }},
		{"another version: updates go on", func(c *cluster) { c.rollsOut("example.test/app:v4") }},
		{"served again: the restart goes on", func(c *cluster) { c.serveRequests(true); c.wish(); c.untilRequested() }},
	} {
		if !t.Run(step.name, func(t *testing.T) { step.test(c.on(t)) }) {
			break
		}
	}
}

// dropRequests removes the CRD of ContainerRecreateRequests, together with all requests.
func (c *cluster) dropRequests() {
	c.t.Helper()
	if err := c.Delete(c.t.Context(), c.definition(requestsCRD)); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Name: requestsCRD}, c.definition(requestsCRD)); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the CRD is still there: %w", err)
		}
		return nil
	})
}

// returns installs the CRD of ContainerRecreateRequests, and waits until requests can be created.
func (c *cluster) returns() {
	c.t.Helper()
	if err := config.InstallCRDs(c.t.Context(), c); err != nil {
		c.t.Fatal(err)
	}
	c.untilInjected()
	c.untilRequested()
}

// serveRequests sets whether the API server serves the watched version of requests.
func (c *cluster) serveRequests(is bool) {
	c.t.Helper()
	c.patch(c.definition(requestsCRD), types.JSONPatchType, fmt.Sprintf(`[{"op":"test","path":"/spec/versions/1/name","value":"v1beta1"},{"op":"replace","path":"/spec/versions/1/served","value":%t}]`, is))
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		if err := c.List(ctx, &v1beta1.ContainerRecreateRequestList{}); (err == nil) != is {
			return fmt.Errorf("served %t: %w", is, err)
		}
		return nil
	})
}

// begins creates a workload of each kind, and waits for its Pods.
func (c *cluster) begins() {
	for kind, pods := range restartedPods() {
		labels := map[string]any{"app": kind}
		spec := map[string]any{
			"selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"terminationGracePeriodSeconds": int64(1), "containers": []any{map[string]any{"name": "app", "image": "example.test/app:v1"}},
				},
			},
		}
		if kind != "DaemonSet" {
			spec["replicas"] = int64(pods)
		}
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": kind, "spec": spec}}
		object.SetNamespace(namespace)
		object.SetName(strings.ToLower(kind))
		if err := c.Create(c.t.Context(), object); err != nil {
			c.t.Fatal(err)
		}
	}
	c.untilRunning("example.test/app:v1")
}

// untilRunning waits until all Pods of the workloads run an image.
func (c *cluster) untilRunning(image string) {
	c.t.Helper()
	for kind, pods := range restartedPods() {
		c.untilPods(kind, pods, func(pod *corev1.Pod) error {
			if got := pod.Spec.Containers[0].Image; got != image {
				return fmt.Errorf("Pod %s has image %s, want %s", pod.Name, got, image)
			}
			return nil
		})
	}
}

// edits changes each workload.
func (c *cluster) edits(patch string) {
	c.t.Helper()
	for kind := range restartedPods() {
		u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": kind}}
		u.SetNamespace(namespace)
		u.SetName(strings.ToLower(kind))
		c.patch(u, types.MergePatchType, patch)
	}
}

// rollsOut updates all Pods to an image.
func (c *cluster) rollsOut(image string) {
	c.t.Helper()
	c.edits(fmt.Sprintf(`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":%q}]}}}}`, image))
	c.untilRunning(image)
}

// wish requests a restart of all containers that were started before a time 2 seconds from now. The time is in the
// future because the start times in a status are in whole seconds.
func (c *cluster) wish() {
	c.t.Helper()
	c.edits(fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, apps.AnnotationRestartContainers, time.Now().Add(2*time.Second).UTC().Format(time.RFC3339)))
}

// untilSaid waits until the condition of each workload has a reason and a text.
func (c *cluster) untilSaid(code reason.Code, text string) {
	c.t.Helper()
	for kind := range restartedPods() {
		controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
			u, err := c.workload(ctx, kind, namespace, strings.ToLower(kind))
			if err != nil {
				return err
			}
			condition, err := restartOf(u)
			if err != nil {
				return fmt.Errorf("%s: %w", kind, err)
			}
			if condition.Reason != string(code) || !strings.Contains(condition.Message, text) {
				return fmt.Errorf("%s: condition %+v, want reason %q with %q", kind, condition, string(code), text)
			}
			return nil
		})
	}
}

func restartOf(u *unstructured.Unstructured) (c v1beta1.Condition, err error) {
	raw, err := json.Marshal(u.Object["status"])
	if err != nil {
		return c, err
	}
	var status struct {
		Conditions v1beta1.Conditions `json:"conditions"`
	}
	if err := json.Unmarshal(raw, &status); err != nil {
		return c, err
	}
	if found := status.Conditions.Find(apps.ConditionContainersRestarted); found != nil {
		return *found, nil
	}
	return c, errors.New("no such condition")
}

// untilRequested waits until a Pod of each workload has a request.
func (c *cluster) untilRequested() {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		var requests v1beta1.ContainerRecreateRequestList
		if err := c.List(ctx, &requests, client.InNamespace(namespace)); err != nil {
			return err
		}
		for kind := range restartedPods() {
			if !slices.ContainsFunc(c.podsOf(kind), func(pod *corev1.Pod) bool {
				return slices.ContainsFunc(requests.Items, func(r v1beta1.ContainerRecreateRequest) bool {
					return r.Spec.PodName == pod.Name && strings.HasSuffix(r.Name, string(pod.UID))
				})
			}) {
				return fmt.Errorf("no Pod of the %s has a request", kind)
			}
		}
		return nil
	})
}
