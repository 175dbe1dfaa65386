package advancedcronjob

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestControllerOf: an event of a job enqueues the AdvancedCronJob in the job's owner reference, of any version.
func TestControllerOf(t *testing.T) {
	for _, tc := range []struct {
		name, version, kind string
		controls            bool
		want                bool
	}{
		{"of today's version", "apps.kruise.io/v1beta1", "AdvancedCronJob", true, true},
		{"of the older version", "apps.kruise.io/v1alpha1", "AdvancedCronJob", true, true},
		{"an owner that does not control", "apps.kruise.io/v1beta1", "AdvancedCronJob", false, false},
		{"another kind", "apps.kruise.io/v1beta1", "CloneSet", true, false},
		{"a kind of the name in another group", "example.test/v1", "AdvancedCronJob", true, false},
		{"no group", "a/b/c", "AdvancedCronJob", true, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{OwnerReferences: []metav1.OwnerReference{
				{APIVersion: tc.version, Kind: tc.kind, Name: "nightly", Controller: &tc.controls},
			}}}
			if name, ours := controllerOf(job); ours != tc.want || ours && name != "nightly" {
				t.Errorf("%q, %t", name, ours)
			}
		})
	}
	if _, ours := controllerOf(&batchv1.Job{}); ours {
		t.Error("a job without an owner")
	}
}
