package admission_test

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// These constants are additional lines of the spec, one for each template. The small object has a Job template.
const (
	cronJobs          = ""
	cronBroadcastJobs = `
  template:
    broadcastJobTemplate:
      metadata: {labels: {team: a}}
      spec: {template: {spec: {restartPolicy: Never, containers: [{name: app, image: "example.test/app:v1"}]}}}
`
	cronImages = `
  template:
    imageListPullJobTemplate:
      spec: {images: ["nginx:1.25"], completionPolicy: {type: Always}}
`
)

// TestAdvancedCronJobsOnTheAPIServer writes and reads AdvancedCronJobs in both versions.
func TestAdvancedCronJobsOnTheAPIServer(t *testing.T) {
	c := start(t)
	t.Run("E-7 the manifests, in both versions", func(t *testing.T) {
		for name, template := range map[string]string{"job": cronJobs, "broadcast": cronBroadcastJobs} {
			sent := c.keepCron(t, name, smallOf(t, "AdvancedCronJob", "v1alpha1", template))
			shown := c.showCron(t, sent, "v1beta1")
			spec := shown.Object["spec"].(tree)
			got := tree{}
			for _, key := range []string{"paused", "concurrencyPolicy", "successfulJobsHistoryLimit", "failedJobsHistoryLimit"} {
				got[key] = spec[key]
			}
			want := tree{"paused": false, "concurrencyPolicy": "Allow", "successfulJobsHistoryLimit": int64(3), "failedJobsHistoryLimit": int64(1)}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("AC-1 (-want +got):\n%s", diff)
			}
			for _, of := range spec["template"].(tree) {
				if labels := of.(tree)["metadata"].(tree)["labels"]; !cmp.Equal(labels, any(tree{"team": "a"})) {
					t.Errorf("AC-15: labels of the template: %v", labels)
				}
			}
			changes := tree{"schedule": "@hourly", "timeZone": "Europe/Berlin", "paused": true, "concurrencyPolicy": "Forbid", "startingDeadlineSeconds": int64(60)}
			maps.Copy(shown.Object["spec"].(tree), changes)
			if err := c.Update(t.Context(), shown); err != nil {
				t.Errorf("AC-5: %v", err)
			}
		}
	})
	t.Run("AC-5 templates stay", func(t *testing.T) {
		sent := c.keepCron(t, "stays", smallOf(t, "AdvancedCronJob", "v1beta1", cronJobs))
		changed := admissiontest.Edit(t, sent.Object, "/spec/template/jobTemplate/spec/backoffLimit", int64(2))
		if err := c.Update(t.Context(), &unstructured.Unstructured{Object: changed}); !apierrors.IsInvalid(err) || !cmp.Equal(causes(err), []string{"spec.template.jobTemplate"}) {
			t.Errorf("%v, causes %q", err, causes(err))
		}
	})
	t.Run("2.1 what is wrong has its path", func(t *testing.T) { c.refusedCronJobs(t) })
	t.Run("AC-17 a list of the older version is readable whatever is stored", func(t *testing.T) { c.listCronJobs(t) })
}

func (c *cluster) refusedCronJobs(t *testing.T) {
	t.Helper()
	for _, r := range []struct {
		version, template, path, field string
		value                          any
	}{
		{"v1beta1", cronJobs, "/spec/schedule", "spec.schedule", "every day"},
		{"v1alpha1", cronJobs, "/spec/schedule", "spec.schedule", "0 0 31 2 *"},
		{"v1beta1", cronJobs, "/spec/schedule", "spec.schedule", "TZ=Europe/Berlin"}, // the cron parser panics on this value
		{"v1beta1", cronJobs, "/spec/timeZone", "spec.timeZone", "Mars/Olympus"},
		{"v1beta1", cronJobs, "/spec/timeZone", "spec.timeZone", "Local"},
		{"v1beta1", cronJobs, "/spec/failedJobsHistoryLimit", "spec.failedJobsHistoryLimit", int64(-1)},
		{"v1beta1", cronJobs, "/spec/template", "spec.template", tree{}},
		{"v1beta1", cronImages, "/spec/template/imageListPullJobTemplate/spec/images", "spec.template.imageListPullJobTemplate.spec.images[0]", []any{"no name!"}},
		{"v1beta1", cronJobs, "/spec/template/jobTemplate/spec/backoffLimit", "spec.template.jobTemplate.spec.backoffLimit", "two"},
		{"v1beta1", cronBroadcastJobs, "/spec/template/broadcastJobTemplate/spec/template/spec/restartPolicy", "spec.template.broadcastJobTemplate.spec.template.spec.restartPolicy", "Always"},
		// The API server finds the next errors.
		{"v1beta1", cronJobs, "/spec/template/jobTemplate/spec/template/spec/restartPolicy", "spec.template.jobTemplate.spec.template.spec.restartPolicy", "Always"},
		{"v1alpha1", cronJobs, "/spec/template/jobTemplate/spec/template/spec/containers/0/name", "spec.template.jobTemplate.spec.template.spec.containers[0].name", "no name!"},
		{"v1beta1", cronBroadcastJobs, "/spec/template/broadcastJobTemplate/spec/template/spec/containers/0/image", "spec.template.broadcastJobTemplate.spec.template.spec.containers[0].image", ""},
	} {
		_, err := c.sendCron(t.Context(), "bad", admissiontest.Edit(t, smallOf(t, "AdvancedCronJob", r.version, r.template), r.path, r.value), client.DryRunAll)
		if !apierrors.IsInvalid(err) || !cmp.Equal(causes(err), []string{r.field}) {
			t.Errorf("%s %v: %v, causes %q", r.field, r.value, err, causes(err))
		}
	}
	long := smallOf(t, "AdvancedCronJob", "v1beta1", cronJobs)
	if _, err := c.sendCron(t.Context(), strings.Repeat("a", 53), long, client.DryRunAll); !cmp.Equal(causes(err), []string{"metadata.name"}) {
		t.Errorf("AC-15: %v, causes %q", err, causes(err))
	}
	if _, err := c.sendCron(t.Context(), strings.Repeat("a", 52), long, client.DryRunAll); err != nil {
		t.Errorf("AC-15: %v", err)
	}
	// The names of the Pods of an Indexed Job are longer, because the names contain an index.
	indexed := admissiontest.Edit(t, admissiontest.Edit(t, long, "/spec/template/jobTemplate/spec/completionMode", "Indexed"), "/spec/template/jobTemplate/spec/completions", int64(3))
	for length, want := range map[int][]string{50: nil, 51: {"spec.template.jobTemplate.metadata.name"}} {
		if _, err := c.sendCron(t.Context(), strings.Repeat("a", length), indexed, client.DryRunAll); !cmp.Equal(causes(err), want) {
			t.Errorf("an Indexed Job of a name of %d characters: %v, causes %q", length, err, causes(err))
		}
	}
}

// listCronJobs stores values that v1alpha1 cannot contain, as OpenKruise may have stored them, and lists in v1alpha1.
func (c *cluster) listCronJobs(t *testing.T) {
	t.Helper()
	c.judgeCronJobs(t, "UPDATE")
	t.Cleanup(func() { c.judgeCronJobs(t, "CREATE", "UPDATE") })
	var stored *unstructured.Unstructured
	controlplanetest.Eventually(t, 20*time.Second, func(ctx context.Context) (err error) {
		stored, err = c.sendCron(ctx, "images", smallOf(t, "AdvancedCronJob", "v1beta1", cronImages))
		return err
	})
	t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(t.Context()), stored) })
	list := &unstructured.UnstructuredList{Object: tree{"apiVersion": "apps.kruise.io/v1alpha1", "kind": "AdvancedCronJobList"}}
	if err := c.List(t.Context(), list, client.InNamespace("default")); err != nil || len(list.Items) == 0 {
		t.Fatalf("%d AdvancedCronJobs, %v", len(list.Items), err)
	}
	shown := c.showCron(t, stored, "v1alpha1")
	if templates := shown.Object["spec"].(tree)["template"]; !cmp.Equal(templates, any(tree{})) {
		t.Errorf("v1alpha1 shows %v", templates)
	}
	shown.Object["spec"].(tree)["paused"] = true
	if err := c.Update(t.Context(), shown); err != nil {
		t.Errorf("an update through v1alpha1: %v", err)
	}
	back := c.showCron(t, stored, "v1beta1").Object["spec"].(tree)
	if _, ok := back["template"].(tree)["imageListPullJobTemplate"].(tree); !ok || back["paused"] != true || back["concurrencyPolicy"] != "Replace" {
		t.Errorf("it came back as %v", back)
	}
}

// judgeCronJobs restricts the validating webhook to the given operations.
func (c *cluster) judgeCronJobs(t *testing.T, operations ...string) {
	t.Helper()
	ctx := context.WithoutCancel(t.Context())
	configuration := &unstructured.Unstructured{Object: tree{"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration"}}
	if err := c.Get(ctx, client.ObjectKey{Name: "kruise-validating-webhook-configuration"}, configuration); err != nil {
		t.Fatal(err)
	}
	for i, webhook := range configuration.Object["webhooks"].([]any) {
		if webhook.(tree)["name"] != "vadvancedcronjob.kb.io" {
			continue
		}
		patch := admissiontest.Encode(t, []tree{{"op": "replace", "path": fmt.Sprintf("/webhooks/%d/rules/0/operations", i), "value": operations}})
		if err := c.Patch(ctx, configuration, client.RawPatch(types.JSONPatchType, patch)); err != nil {
			t.Fatal(err)
		}
	}
}

// sendCron creates an AdvancedCronJob with the given name.
func (c *cluster) sendCron(ctx context.Context, name string, object tree, options ...client.CreateOption) (*unstructured.Unstructured, error) {
	sent := (&unstructured.Unstructured{Object: object}).DeepCopy()
	sent.SetName(name)
	return sent, c.Create(ctx, sent, options...)
}

// keepCron creates an AdvancedCronJob that exists until the test ends.
func (c *cluster) keepCron(t *testing.T, name string, object tree) *unstructured.Unstructured {
	t.Helper()
	sent, err := c.sendCron(t.Context(), name, object)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Delete(context.WithoutCancel(t.Context()), sent); err != nil {
			t.Error(err)
		}
	})
	return sent
}

// showCron reads an AdvancedCronJob in a version.
func (c *cluster) showCron(t *testing.T, like *unstructured.Unstructured, version string) *unstructured.Unstructured {
	t.Helper()
	shown := &unstructured.Unstructured{Object: tree{"apiVersion": "apps.kruise.io/" + version, "kind": "AdvancedCronJob"}}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(like), shown); err != nil {
		t.Fatal(err)
	}
	return shown
}
