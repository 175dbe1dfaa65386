package sidecars

import (
	"context"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
	"github.com/workloadkit/workloadkit/sidecarcontrol/podwebhook"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// world is a manager whose cache is always up to date.
type world struct {
	t     *testing.T
	cache *faultapi.Cache
	user  *faultapi.Client
}

func (w *world) GetCache() cache.Cache       { return w.cache }
func (w *world) GetAPIReader() client.Reader { return w.user }
func (w *world) GetLogger() logr.Logger      { return logr.Discard() }

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, resource := range w.cache.Resources() {
		w.cache.Deliver(resource, w.cache.Behind(resource))
	}
	w.cache.Announce()
}

// TestSetsOfNamespaces: if the owner of a set of sidecars has a namespace, the set applies only to the Pods in this
// namespace, and has no effect on a set of the same name in another namespace. The owner's kind need not have a
// metadata.generation.
func TestSetsOfNamespaces(t *testing.T) {
	server, err := faultapi.New(clientgoscheme.Scheme, time.Now, &corev1.ConfigMap{}, faultapi.ClusterWide(&corev1.Namespace{}))
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, cache: server.Cache(nil), user: server.Client(nil, nil)}
	sets, err := podwebhook.NewSets(t.Context(), w, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) (*sidecarcontrol.Set, error) {
		return sidecarcontrol.NewSet(sidecarcontrol.Spec{
			Name: c.Name, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Containers: []sidecarcontrol.Sidecar{{Container: corev1.Container{Name: "log", Image: c.Data["image"]}}},
		})
	})
	w.must(err)
	config := func(namespace, image string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "log"}, Data: map[string]string{"image": image}}
	}
	images := func() map[string]string {
		t.Helper()
		out := map[string]string{}
		for _, namespace := range []string{"a", "b", "c"} {
			found, err := sets.For(context.Background(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Labels: map[string]string{"app": "web"}}})
			w.must(err)
			for _, set := range found {
				injected, err := injectedBy(set)
				w.must(err)
				for _, c := range injected {
					out[namespace] += c.Image
				}
			}
		}
		return out
	}
	for _, name := range []string{"a", "b", "c"} {
		w.must(w.user.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	}
	w.must(w.user.Create(t.Context(), config("a", "a:v1")))
	w.must(w.user.Create(t.Context(), config("b", "b:v1")))
	if diff := cmp.Diff(map[string]string{"a": "a:v1", "b": "b:v1"}, images()); diff != "" {
		t.Errorf("two of one name (-want +got):\n%s", diff)
	}
	changed := config("b", "")
	w.must(w.user.Get(t.Context(), client.ObjectKeyFromObject(changed), changed))
	changed.Data["image"] = "b:v2"
	w.must(w.user.Update(t.Context(), changed))
	if diff := cmp.Diff(map[string]string{"a": "a:v1", "b": "b:v2"}, images()); diff != "" {
		t.Errorf("changed (-want +got):\n%s", diff)
	}
	w.must(w.user.Delete(t.Context(), config("a", "")))
	if diff := cmp.Diff(map[string]string{"b": "b:v2"}, images()); diff != "" {
		t.Errorf("one deleted (-want +got):\n%s", diff)
	}
}

// injectedBy returns the containers that a set injects.
func injectedBy(set *sidecarcontrol.Set) ([]corev1.Container, error) {
	control, err := sidecarcontrol.New(sidecarcontrol.Config{Keys: keys()})
	if err != nil {
		return nil, err
	}
	pod := &corev1.Pod{}
	_, err = control.Inject(pod, []*sidecarcontrol.Set{set}, sidecarcontrol.Facts{Now: time.Unix(1, 0)})
	return pod.Spec.Containers, err
}
