package revision_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestTwins: a Pod at another revision with the same template must not be restarted only because the name of the
// revision differs.
func TestTwins(t *testing.T) {
	// named returns a revision of an image that somebody else has written with the given name.
	named := func(name, image string, number int64, change ...func(*appsv1.ControllerRevision)) *appsv1.ControllerRevision {
		rev := stored(t, image, number)
		rev.Name, rev.UID = name, "uid-"+rev.UID
		for _, f := range change {
			f(rev)
		}
		return rev
	}
	data := func(raw string) func(*appsv1.ControllerRevision) {
		return func(rev *appsv1.ControllerRevision) { rev.Data = runtime.RawExtension{Raw: []byte(raw)} }
	}
	const spelled = `{"spec":{"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"app:v2","resources":{}}]}}}}`
	const outside = `{"spec":{"replicas":1,"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"app","image":"app:v2","resources":{}}]}}}}`
	update := stored(t, "app:v2", 5)
	for _, tc := range []struct {
		name   string
		update *appsv1.ControllerRevision
		have   []*appsv1.ControllerRevision
		want   []string
	}{
		{"D-29 the update revision is none of its own", update, []*appsv1.ControllerRevision{update}, nil},
		{"D-29 nor is what the cache has of it", update, []*appsv1.ControllerRevision{update.DeepCopy()}, nil},
		{"D-29 one of another template", update, []*appsv1.ControllerRevision{update, stored(t, "app:v1", 4)}, nil},
		{"D-29 the same data under another name", update, []*appsv1.ControllerRevision{update, named("web-twin", "app:v2", 4)}, []string{"web-twin"}},
		{"D-29 written otherwise", update, []*appsv1.ControllerRevision{update, named("web-twin", "app:v2", 4, data(spelled))}, []string{"web-twin"}},
		{"D-29 two of them, the older first", update, []*appsv1.ControllerRevision{named("web-a", "app:v2", 3), update, named("web-b", "app:v2", 1)}, []string{"web-b", "web-a"}},
		{"D-29 the update revision is written otherwise", named("web-new", "app:v2", 7, data(spelled)), []*appsv1.ControllerRevision{update}, []string{update.Name}},
		{"U-4 with something beside the template", update, []*appsv1.ControllerRevision{update, named("web-twin", "app:v2", 4, data(outside))}, nil},
		{"that of another owner", update, []*appsv1.ControllerRevision{update, named("web-twin", "app:v2", 4, func(rev *appsv1.ControllerRevision) {
			rev.OwnerReferences[0].UID = "another"
		})}, nil},
		{"that of nobody", update, []*appsv1.ControllerRevision{update, named("web-twin", "app:v2", 4, func(rev *appsv1.ControllerRevision) { rev.OwnerReferences = nil })}, nil},
		{"one that nobody can read", update, []*appsv1.ControllerRevision{update, named("web-twin", "app:v2", 4, data(`{`))}, nil},
		{"the update revision is not known", nil, []*appsv1.ControllerRevision{update, named("web-twin", "app:v2", 4)}, nil},
		{"or cannot be read", named("web-new", "app:v2", 7, data(`{`)), []*appsv1.ControllerRevision{update, named("web-twin", "app:v2", 4, data(`{`))}, nil},
	} {
		t.Run(tc.name, func(t *testing.T) {
			h := history(t, keys, nil, newDecoder(), tc.have...)
			h.Update = tc.update
			var got []string
			for _, twin := range h.Twins() {
				got = append(got, twin.Name)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("Twins (-want +got):\n%s", diff)
			}
		})
	}
}
