package conversion_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/conversion"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

const (
	imageList = `{"metadata":{"labels":{"a":"b"}},"spec":{"images":["nginx:1.25"],"completionPolicy":{"type":"Always"},"selector":{"names":["n"]}}}`
	// keptList is the annotation in which v1alpha1 keeps imageList.
	keptList = `{"fields":[{"path":["spec","template","imageListPullJobTemplate"],"kept":` + imageList + `}]}`
)

func cronJob(version, annotations, templates string) string {
	return `{"apiVersion":"apps.kruise.io/` + version + `","kind":"AdvancedCronJob","metadata":{"name":"nightly"` + annotations + `},
		"spec":{"schedule":"0 3 * * *","timeZone":"Asia/Tokyo","template":` + templates + `},"status":{"type":"Job","lastScheduleTime":"2026-03-01T02:00:00Z"}}`
}

func annotated(value string) string {
	return fmt.Sprintf(`,"annotations":{"workloadkit.io/v1beta1-only":%q}`, value)
}

func TestAdvancedCronJobConversion(t *testing.T) {
	const jobs = `{"jobTemplate":{"spec":{"template":{"spec":{"unknown":12345678901234567890}}}},"broadcastJobTemplate":{"spec":{"parallelism":"5%"}}}`
	for _, c := range []struct{ name, from, version, want string }{
		{"2.1 templates of both versions", cronJob("v1alpha1", "", jobs), "v1beta1", cronJob("v1beta1", "", jobs)},
		{"2.1 and back", cronJob("v1beta1", "", jobs), "v1alpha1", cronJob("v1alpha1", "", jobs)},
		{"AC-17 the template of v1beta1 alone is kept", cronJob("v1beta1", "", `{"imageListPullJobTemplate":`+imageList+`}`), "v1alpha1", cronJob("v1alpha1", annotated(keptList), `{}`)},
		{"AC-17 and comes back", cronJob("v1alpha1", annotated(keptList), `{}`), "v1beta1", cronJob("v1beta1", "", `{"imageListPullJobTemplate":`+imageList+`}`)},
		{"AC-17 beside another", cronJob("v1alpha1", annotated(keptList), jobs), "v1beta1", cronJob("v1beta1", "", strings.TrimSuffix(jobs, "}")+`,"imageListPullJobTemplate":`+imageList+`}`)},
		{"AC-17 a null is nothing", cronJob("v1beta1", "", `{"imageListPullJobTemplate":null}`), "v1alpha1", cronJob("v1alpha1", "", `{}`)},
		{"AC-17 what no schema takes stays away", cronJob("v1alpha1", annotated(strings.Replace(keptList, `["nginx:1.25"]`, `7`, 1)), `{}`), "v1beta1", cronJob("v1beta1", "", `{}`)},
		{"AC-17 what the schema requires", cronJob("v1alpha1", annotated(strings.Replace(keptList, `"images":["nginx:1.25"],`, ``, 1)), `{}`), "v1beta1", cronJob("v1beta1", "", `{}`)},
		{"AC-17 another path", cronJob("v1alpha1", annotated(strings.Replace(keptList, `"imageListPullJobTemplate"`, `"jobTemplate"`, 1)), `{}`), "v1beta1", cronJob("v1beta1", "", `{}`)},
		{"an annotation of the other version goes", cronJob("v1beta1", annotated(keptList), jobs), "v1alpha1", cronJob("v1alpha1", "", jobs)},
		{"a template that makes no sense", cronJob("v1beta1", "", `7`), "v1alpha1", cronJob("v1alpha1", "", `7`)},
		{"a template that makes no sense, and an annotation", cronJob("v1alpha1", annotated(keptList), `7`), "v1beta1", cronJob("v1beta1", "", `7`)},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := conversion.JSON([]byte(c.from), "apps.kruise.io/"+c.version)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(withoutEmpty(treeOf(t, []byte(c.want))), withoutEmpty(treeOf(t, got))); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// withoutEmpty removes the annotations of an object if the annotations are null.
func withoutEmpty(tree map[string]any) map[string]any {
	if meta, ok := tree["metadata"].(map[string]any); ok && meta["annotations"] == nil {
		delete(meta, "annotations")
	}
	return tree
}

// TestAdvancedCronJobRoom: Check refuses an object if the values to keep do not fit into the annotation.
func TestAdvancedCronJobRoom(t *testing.T) {
	long := strings.Replace(imageList, "nginx", strings.Repeat("n", 300<<10), 1)
	problems := conversion.Check([]byte(cronJob("v1beta1", "", `{"imageListPullJobTemplate":`+long+`}`)))
	if len(problems) != 1 || problems[0].Field != "spec.template.imageListPullJobTemplate" {
		t.Errorf("AC-17: %v", problems)
	}
	if problems := conversion.Check([]byte(cronJob("v1beta1", "", `{"imageListPullJobTemplate":`+imageList+`}`))); len(problems) > 0 {
		t.Errorf("AC-17: %v", problems)
	}
}

func TestAdvancedCronJobTypes(t *testing.T) {
	stored := &v1beta1.AdvancedCronJob{}
	if err := utiljson.Unmarshal([]byte(cronJob("v1beta1", "", `{"imageListPullJobTemplate":`+imageList+`}`)), stored); err != nil {
		t.Fatal(err)
	}
	before := stored.DeepCopy()
	shown, err := to[v1alpha1.AdvancedCronJob](stored)
	if err != nil {
		t.Fatal(err)
	}
	back, err := to[v1beta1.AdvancedCronJob](shown)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(before, back) + cmp.Diff(before, stored); diff != "" {
		t.Errorf("AC-17: there and back, or the argument (-want +got):\n%s", diff)
	}
}
