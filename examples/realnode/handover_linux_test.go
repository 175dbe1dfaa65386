package realnode_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// TestAgentTakesOver: in each API version, the agent completes three ContainerRecreateRequests: a request created
// before the agent starts, a request for which OpenKruise's daemon has already stopped a container, and a request
// created after the start. All requests succeed, and no container restarts more than once for a request.
func TestAgentTakesOver(t *testing.T) {
	f := startServed(t)
	type left struct {
		pod      string
		requests []*unstructured.Unstructured
	}
	var all []left
	for _, version := range []schema.GroupVersion{v1alpha1.GroupVersion, v1beta1.GroupVersion} {
		web := f.cloneSet(version.Version, v1beta1.InPlaceIfPossible, 0)
		pod := f.create(web, 1)[0]
		middle := f.askIn(version, "middle", pod.Name, "log")
		f.stopAsOpenKruise(&pod, "log", middle)
		all = append(all, left{pod.Name, []*unstructured.Unstructured{middle, f.askIn(version, "before", pod.Name, "app")}})
	}
	f.runAgent()
	for i, l := range all {
		version := l.requests[0].GroupVersionKind().GroupVersion()
		f.untilCompleted(l.requests...)
		last := f.askIn(version, "after", l.pod, "app", "log")
		f.untilCompleted(last)
		for _, r := range append(l.requests, last) {
			states, _, _ := unstructured.NestedSlice(r.Object, "status", "containerRecreateStates")
			for _, state := range states {
				if state.(map[string]any)["phase"] != "Succeeded" {
					t.Errorf("%d: request %s has ended with %v", i, r.GetName(), states)
				}
			}
		}
		pod := f.podNow(client.ObjectKey{Namespace: f.namespace, Name: l.pod})
		if diff := cmp.Diff(map[string]int32{"app": 2, "log": 2}, restarts(pod)); diff != "" {
			t.Errorf("%s: restarts (-want +got):\n%s", version, diff)
		}
	}
}

// askIn creates a ContainerRecreateRequest in an API version.
func (f *fixture) askIn(version schema.GroupVersion, name, pod string, containers ...string) *unstructured.Unstructured {
	f.t.Helper()
	var list []any
	for _, c := range containers {
		list = append(list, map[string]any{"name": c})
	}
	request := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"podName": pod, "containers": list}}}
	request.SetGroupVersionKind(version.WithKind("ContainerRecreateRequest"))
	request.SetNamespace(f.namespace)
	request.SetName(version.Version + "-" + name)
	if err := f.Create(f.t.Context(), request); err != nil {
		f.t.Fatal(err)
	}
	return request
}

// stopAsOpenKruise stops a container, and records the stop in the same way as OpenKruise's daemon.
func (f *fixture) stopAsOpenKruise(pod *corev1.Pod, container string, request *unstructured.Unstructured) {
	f.t.Helper()
	runtime, err := cri.New(f.node.Socket())
	if err != nil {
		f.t.Fatal(err)
	}
	defer runtime.Close()
	_, id := containerrestart.SplitID(podstate.ContainerStatus(pod, container).ContainerID)
	if err := runtime.Stop(f.t.Context(), id, 0); err != nil {
		f.t.Fatal(err)
	}
	body, err := json.Marshal(map[string]any{"status": map[string]any{
		"phase": "Recreating", "containerRecreateStates": []any{map[string]any{"name": container, "phase": "Recreating", "isKilled": true}},
	}})
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.Status().Patch(f.t.Context(), request, client.RawPatch(types.MergePatchType, body)); err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) untilCompleted(requests ...*unstructured.Unstructured) {
	f.t.Helper()
	controlplanetest.Eventually(f.t, 2*within, func(ctx context.Context) error {
		for _, r := range requests {
			if err := f.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
				return err
			}
			if phase, _, _ := unstructured.NestedString(r.Object, "status", "phase"); phase != "Completed" {
				return errors.Join(fmt.Errorf("request %s: status %v", r.GetName(), r.Object["status"]), f.troubles(ctx))
			}
		}
		return nil
	})
}
