package watchhealth

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	toolscache "k8s.io/client-go/tools/cache"
)

// TestDifferencesDoNotGoBack: the resourceVersion of the store never decreases, whatever a list returns, because
// controllers wait until the store has reached the resourceVersions of their writes.
func TestDifferencesDoNotGoBack(t *testing.T) {
	kind := corev1.SchemeGroupVersion.WithKind("ConfigMap")
	watches, err := New(Options{Scheme: scheme.Scheme, Kinds: []schema.GroupVersionKind{kind}})
	if err != nil {
		t.Fatal(err)
	}
	object := func(name, version string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, ResourceVersion: version}}
	}
	informer := watches.NewInformer(&toolscache.ListWatch{}, &corev1.ConfigMap{}, 0, toolscache.Indexers{})
	stored := []*corev1.ConfigMap{object("gone", "7"), object("same", "8"), object("changed", "10")}
	for _, o := range stored {
		if err := informer.GetIndexer().Add(o); err != nil {
			t.Fatal(err)
		}
	}
	listed := map[string]runtime.Object{
		"ns/same": object("same", "8"), "ns/changed": object("changed", "101"), "ns/new": object("new", "99"), "ns/newest": object("newest", "102"),
	}
	w := &lastingWatch{kindWatch: watches.kinds[kind][0]}
	var got []string
	for _, event := range w.differences(listed, "103") {
		o := event.Object.(*corev1.ConfigMap)
		got = append(got, fmt.Sprint(event.Type, " ", o.Name, " ", o.ResourceVersion))
	}
	if diff := cmp.Diff([]string{"ADDED new 99", "MODIFIED changed 101", "ADDED newest 102", "DELETED gone 103"}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if stored[0].ResourceVersion != "7" {
		t.Error("an object of the cache was changed")
	}
}
