package main

import (
	"context"
	"errors"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/expectations"
	expectationsapply "github.com/workloadkit/workloadkit/expectations/apply"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/ownerindex"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// policy refuses some calls.
type policy func(faultapi.Call) bool

func (refuses *policy) Pass(_ context.Context, call faultapi.Call) faultapi.Fate {
	if *refuses != nil && (*refuses)(call) {
		return faultapi.Fate{Before: apierrors.NewForbidden(call.Resource, call.Name, errors.New("a webhook says no"))}
	}
	return faultapi.Fate{}
}

// harbour is a Fleet of three Pods, its operator and its nodes.
type harbour struct {
	t       *testing.T
	server  *faultapi.Server
	cache   *faultapi.Cache
	refuses policy
	fleet   *Fleet
	*reconciler
}

func newHarbour(t *testing.T) *harbour {
	t.Helper()
	server, err := faultapi.New(newScheme(), time.Now, &Fleet{})
	if err != nil {
		t.Fatal(err)
	}
	h := &harbour{t: t, server: server, cache: server.Cache(nil), fleet: &Fleet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "ships"}}}
	pods, podsErr := ownerindex.New(t.Context(), h.cache, &corev1.Pod{})
	revisions, revisionsErr := ownerindex.New(t.Context(), h.cache, &appsv1.ControllerRevision{})
	inPlace, configErr := inplaceupdate.New(inplaceupdate.Config{AllowResize: true, Keys: keys()})
	if err := errors.Join(podsErr, revisionsErr, configErr); err != nil {
		t.Fatal(err)
	}
	writes := expectationsapply.NewClient(server.Client(&h.refuses, h.cache), server.Client(nil, nil), expectations.Options{},
		expectationsapply.Pods(pods), expectationsapply.Revisions(revisions))
	decoder := revision.NewDecoder(10, nil)
	h.reconciler = &reconciler{writes, pods, revisions, decoder, inPlace, inplaceupdate.NewPlanner(inPlace, decoder, nil)}
	h.fleet.Spec.Replicas = 3
	h.fleet.Spec.Template.Labels = map[string]string{"fleet": "ships"}
	h.fleet.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:v1", Resources: corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")},
	}}}
	if err := server.Client(nil, nil).Create(t.Context(), h.fleet); err != nil {
		t.Fatal(err)
	}
	return h
}

// rounds lets the operator and the nodes work, and returns how often the operator failed and the fewest Pods that were ready.
func (h *harbour) rounds(n int) (failed, fewest int) {
	fewest = 3
	nodes := h.server.Nodes()
	for range n {
		for _, resource := range h.cache.Resources() {
			h.cache.Deliver(resource, 1000)
			h.cache.Bookmark(resource)
		}
		if _, err := h.Reconcile(h.t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(h.fleet)}); err != nil {
			h.t.Log(err)
			failed++
		}
		ready := 0
		for _, pod := range faultapi.All[*corev1.Pod](h.server) {
			if podstate.IsActive(pod) && podstate.IsReady(pod) {
				ready++
			}
			nodes.Schedule(pod, "n1")
			nodes.Observe(client.ObjectKeyFromObject(pod), pod.UID)
			nodes.Run(pod.UID)
			nodes.SetReady(pod.UID, "app", true)
			nodes.Report(pod.UID)
			nodes.Terminate(pod.UID)
		}
		fewest = min(fewest, ready)
	}
	return failed, fewest
}

// TestRefusedUpdates: a Pod that may not be updated in place is recreated, one after the other, and the operator does not fail
// in a loop.
func TestRefusedUpdates(t *testing.T) {
	resize := func(fleet *Fleet) {
		fleet.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = resource.MustParse("2")
	}
	image := func(fleet *Fleet) { fleet.Spec.Template.Spec.Containers[0].Image = "app:v2" }
	sent := 0
	for _, tc := range []struct {
		name    string
		edit    func(*Fleet)
		refuses policy
	}{
		{"the spec", image, func(c faultapi.Call) bool {
			return c.Verb == "patch" && c.Resource.Resource == "pods" && c.Subresource == ""
		}},
		{"a resize", resize, func(c faultapi.Call) bool { return c.Subresource == "resize" }},
		{"a resize, after its dry run", resize, func(c faultapi.Call) bool { return c.Subresource == "resize" && !c.DryRun }},
		{"a resize, and then no more", resize, func(c faultapi.Call) bool {
			if c.Subresource == "resize" && !c.DryRun {
				sent++
			}
			return c.Subresource == "resize" && !c.DryRun && sent == 1
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := newHarbour(t)
			h.rounds(10)
			h.refuses = tc.refuses
			if err := h.server.Client(nil, nil).Get(t.Context(), client.ObjectKeyFromObject(h.fleet), h.fleet); err != nil {
				t.Fatal(err)
			}
			tc.edit(h.fleet)
			if err := h.server.Client(nil, nil).Update(t.Context(), h.fleet); err != nil {
				t.Fatal(err)
			}
			failed, fewest := h.rounds(40)
			if failed > 0 || fewest < 2 {
				t.Errorf("the operator failed %d times, and %d Pods were ready at times", failed, fewest)
			}
			want := h.fleet.Spec.Template.Spec.Containers[0]
			pods := faultapi.All[*corev1.Pod](h.server)
			for _, pod := range pods {
				got := pod.Spec.Containers[0]
				if got.Image != want.Image || got.Resources.Requests.Cpu().Cmp(*want.Resources.Requests.Cpu()) != 0 || !podstate.IsReady(pod) {
					t.Errorf("Pod %s has %s and %v, ready %t", pod.Name, got.Image, got.Resources.Requests, podstate.IsReady(pod))
				}
			}
			if len(pods) != 3 {
				t.Errorf("%d Pods", len(pods))
			}
		})
	}
}
