package foresee_test

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/examples/cli/foresee"
)

func now() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) }

// cloneSet returns a CloneSet named web with one container.
func cloneSet(replicas int32, image, env string, policy v1beta1.PodUpdatePolicy, unavailable string) *v1beta1.CloneSet {
	set := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}
	set.Spec.Replicas, set.Spec.Selector = &replicas, &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	set.Spec.Template.Labels = map[string]string{"app": "web"}
	set.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: image, Env: []corev1.EnvVar{{Name: "MODE", Value: env}}}}
	limit := intstr.Parse(unavailable)
	set.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: policy, MaxUnavailable: &limit}
	return set
}

func untyped(t testing.TB, object client.Object, kind string) *unstructured.Unstructured {
	t.Helper()
	content, err := apiruntime.DefaultUnstructuredConverter.ToUnstructured(object)
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: content}
	u.SetAPIVersion(v1beta1.GroupVersion.String())
	u.SetKind(kind)
	return u
}

// build plays the creation of a CloneSet, and returns the objects of the cluster afterwards.
func build(t testing.TB, set *v1beta1.CloneSet) ([]client.Object, *unstructured.Unstructured) {
	t.Helper()
	in, err := foresee.Play(t.Context(), foresee.Question{Changed: untyped(t, set, "CloneSet"), Now: now().Add(-time.Hour), ManagerNamespace: "kruise-system"})
	if err != nil {
		t.Fatal(err)
	}
	stored := &unstructured.Unstructured{Object: in.After.Object}
	hub := &v1beta1.CloneSet{}
	if err := apiruntime.DefaultUnstructuredConverter.FromUnstructured(stored.Object, hub); err != nil {
		t.Fatal(err)
	}
	objects := []client.Object{hub}
	for _, pod := range in.After.Pods {
		objects = append(objects, pod)
	}
	for _, revision := range in.After.Revisions {
		objects = append(objects, revision)
	}
	return objects, stored
}

func play(t testing.TB, objects []client.Object, stored *unstructured.Unstructured, set *v1beta1.CloneSet) *forecast.Report {
	t.Helper()
	changed := stored.DeepCopy()
	changed.Object["spec"] = untyped(t, set, "CloneSet").Object["spec"]
	in, err := foresee.Play(t.Context(), foresee.Question{Objects: objects, Changed: changed, Stored: stored, Now: now(), ManagerNamespace: "kruise-system"})
	if err != nil {
		t.Fatal(err)
	}
	return forecast.Of(in)
}

func TestPlay(t *testing.T) {
	const kept, inPlace, recreated, deleted, created = forecast.Keep, forecast.InPlace, forecast.Recreate, forecast.Delete, forecast.Create
	objects, stored := build(t, cloneSet(5, "app:v1", "1", v1beta1.InPlaceIfPossible, "2"))
	tests := []struct {
		name    string
		set     *v1beta1.CloneSet
		want    map[forecast.Action]int
		batches int
	}{
		{"an image", cloneSet(5, "app:v2", "1", v1beta1.InPlaceIfPossible, "2"), map[forecast.Action]int{inPlace: 5}, 3},
		{"a variable", cloneSet(5, "app:v1", "2", v1beta1.InPlaceIfPossible, "2"), map[forecast.Action]int{recreated: 5}, 3},
		{"the policy recreates", cloneSet(5, "app:v2", "1", "ReCreate", "40%"), map[forecast.Action]int{recreated: 5}, 3},
		{"smaller", cloneSet(3, "app:v1", "1", v1beta1.InPlaceIfPossible, "2"), map[forecast.Action]int{kept: 3, deleted: 2}, 1},
		{"larger", cloneSet(7, "app:v1", "1", v1beta1.InPlaceIfPossible, "2"), map[forecast.Action]int{kept: 5, created: 2}, 1},
		{"nothing", cloneSet(5, "app:v1", "1", v1beta1.InPlaceIfPossible, "2"), map[forecast.Action]int{kept: 5}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := play(t, objects, stored, tt.set)
			got := map[forecast.Action]int{}
			for i := range r.Pods {
				got[r.Pods[i].Action]++
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || len(r.Batches) != tt.batches || len(r.Stops) > 0 {
				t.Errorf("%d batches, want %d; Pods (-want +got):\n%s\n%s", len(r.Batches), tt.batches, diff, forecast.Text(r, true))
			}
		})
	}
}

// TestPlayRefuses: an invalid change is refused with the webhook's message.
func TestPlayRefuses(t *testing.T) {
	_, err := foresee.Play(t.Context(), foresee.Question{
		Changed: untyped(t, cloneSet(-1, "app:v1", "1", v1beta1.InPlaceIfPossible, "2"), "CloneSet"), Now: now(), ManagerNamespace: "kruise-system",
	})
	var refused *foresee.Refused
	if !errors.As(err, &refused) || !strings.Contains(err.Error(), `CloneSet.apps.kruise.io "web" is invalid: spec.replicas`) {
		t.Errorf("the error is %v", err)
	}
}

// TestPlayKeepsItsArguments: Play does not change the objects in the Question.
func TestPlayKeepsItsArguments(t *testing.T) {
	objects, stored := build(t, cloneSet(3, "app:v1", "1", v1beta1.InPlaceIfPossible, "2"))
	var before []client.Object
	for _, object := range objects {
		before = append(before, object.DeepCopyObject().(client.Object))
	}
	play(t, objects, stored, cloneSet(3, "app:v2", "1", v1beta1.InPlaceIfPossible, "2"))
	if diff := cmp.Diff(before, objects); diff != "" {
		t.Errorf("objects (-before +after):\n%s", diff)
	}
}

// TestManyPods plays rollouts of many Pods to their end, and prints how long a preview takes: the environment
// variable PREVIEW_PODS is the number of Pods, 100 if not set.
func TestManyPods(t *testing.T) {
	pods := int32(100)
	if text := os.Getenv("PREVIEW_PODS"); text != "" {
		if _, err := fmt.Sscan(text, &pods); err != nil {
			t.Fatal(err)
		}
	}
	began := time.Now()
	objects, stored := build(t, cloneSet(pods, "app:v1", "1", v1beta1.InPlaceIfPossible, "20%"))
	t.Logf("created in %v", time.Since(began))
	for _, unavailable := range []string{"20%", "1%"} {
		for _, policy := range []v1beta1.PodUpdatePolicy{v1beta1.InPlaceIfPossible, "ReCreate"} {
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			began = time.Now()
			r := play(t, objects, stored, cloneSet(pods, "app:v2", "1", policy, unavailable))
			took := time.Since(began)
			runtime.ReadMemStats(&after)
			if n := int32(len(r.Pods)); n != pods || len(r.Stops) > 0 || r.Count(forecast.Keep) > 0 {
				t.Errorf("%d of %d Pods, %d are kept, stops %v", n, pods, r.Count(forecast.Keep), r.Stops)
			}
			t.Logf("maxUnavailable %s, %s: %v, %d batches, %s; allocated %d MiB, sys %d MiB", unavailable, policy, took.Round(time.Millisecond), len(r.Batches), r.Outcome, (after.TotalAlloc-before.TotalAlloc)>>20, after.Sys>>20)
		}
	}
}
