package sidecarset

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	toolscache "k8s.io/client-go/tools/cache"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/sidecarset"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/ownercache"
	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// TestForgedRevision: injection ignores a ControllerRevision that a user has created in another namespace, even if
// the owner reference names the SidecarSet.
func TestForgedRevision(t *testing.T) {
	set := &v1beta1.SidecarSet{ObjectMeta: metav1.ObjectMeta{Name: "mesh", UID: "set-uid", Generation: 1}}
	set.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"mesh": "yes"}}
	set.Spec.Containers = []pub.SidecarContainer{{Container: corev1.Container{Name: "proxy", Image: "good:v1"}}}
	version := "v1"
	set.Spec.InjectionStrategy.Revision = &pub.SidecarSetInjectRevision{CustomVersion: &version, Policy: pub.InjectRevisionAlways}
	if err := api.Default(set); err != nil {
		t.Fatal(err)
	}
	revision := func(namespace, image string, n int64) *appsv1.ControllerRevision {
		c := set.DeepCopy()
		c.Spec.Containers[0].Image = image
		data, err := contentOf(c).Encode()
		if err != nil {
			t.Fatal(err)
		}
		return &appsv1.ControllerRevision{Revision: n, Data: runtime.RawExtension{Raw: data}, ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "mesh-" + namespace, Labels: map[string]string{apps.LabelSidecarSetName: "mesh", apps.LabelSidecarSetCustomVersion: "v1"},
			OwnerReferences: []metav1.OwnerReference{{APIVersion: v1beta1.GroupVersion.String(), Kind: "SidecarSet", Name: "mesh", UID: set.UID, Controller: new(true)}},
		}}
	}
	informer := toolscache.NewSharedIndexInformer(&toolscache.ListWatch{}, &appsv1.ControllerRevision{}, 0, toolscache.Indexers{})
	index, err := ownercache.IndexOf[*appsv1.ControllerRevision](informer)
	if err != nil {
		t.Fatal(err)
	}
	for _, rev := range []*appsv1.ControllerRevision{revision("kruise-system", "good:v1", 1), revision("team", "evil:v1", 9)} {
		if err := informer.GetIndexer().Add(rev); err != nil {
			t.Fatal(err)
		}
	}
	// The next lines look up the revision as newInjection does.
	compiled, err := Compile(set, revisionName(set), func(pin *pub.SidecarSetInjectRevision) *appsv1.ControllerRevision {
		return find(index.Of("kruise-system", set.UID), pin)
	})
	if err != nil {
		t.Fatal(err)
	}
	control, err := kruise.SidecarControl(nil)
	if err != nil {
		t.Fatal(err)
	}
	victim := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "victim", Name: "p", Labels: map[string]string{"mesh": "yes"}}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app"}}}}
	if _, err := control.Inject(victim, []*sidecarcontrol.Set{compiled}, sidecarcontrol.Facts{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range victim.Spec.Containers {
		if c.Image == "evil:v1" {
			t.Errorf("a Pod of another namespace gets container %s with the forged image %s", c.Name, c.Image)
		}
	}
}
