package v1beta1_test

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// cronJobFields returns the fields of OpenKruise, the metadata of templates, and status.observedSchedule. The status
// records the time of a schedule's change, because a restarted manager needs the time.
func cronJobFields(imageList bool) map[string]string {
	fields := fieldsOf("", `object metadata spec status spec.template*
		string apiVersion kind`)
	fields[""] = "object"
	maps.Copy(fields, fieldsOf("spec.", `string schedule* timeZone concurrencyPolicy
		int64 startingDeadlineSeconds
		int32 successfulJobsHistoryLimit failedJobsHistoryLimit
		boolean paused`))
	const templates = "spec.template*."
	completion := `object .completionPolicy
		int64 .completionPolicy.activeDeadlineSeconds
		int32 .completionPolicy.ttlSecondsAfterFinished
		string .completionPolicy.type
		int-or-string .parallelism`
	maps.Copy(fields, fieldsOf(templates, `object broadcastJobTemplate broadcastJobTemplate.spec
		anything jobTemplate broadcastJobTemplate.metadata`))
	const broadcast = templates + "broadcastJobTemplate.spec"
	maps.Copy(fields, fieldsOf(broadcast, completion))
	maps.Copy(fields, fieldsOf(broadcast, `object .failurePolicy
		int32 .failurePolicy.restartLimit
		string .failurePolicy.type
		boolean .paused
		anything .template*`))
	if imageList {
		const list = templates + "imageListPullJobTemplate"
		fields[list] = "object"
		maps.Copy(fields, fieldsOf(list, `object .spec
			anything .metadata`))
		maps.Copy(fields, fieldsOf(list+".spec", strings.ReplaceAll(completion, ".completionPolicy", ".completionPolicy*")))
		maps.Copy(fields, fieldsOf(list+".spec.", `object pullPolicy sandboxConfig sandboxConfig.labels sandboxConfig.annotations podSelector selector
			string imagePullPolicy images*[] pullSecrets[] sandboxConfig.labels{} sandboxConfig.annotations{} selector.names[]
			array images* pullSecrets selector.names
			int32 pullPolicy.backoffLimit pullPolicy.timeoutSeconds`))
		maps.Copy(fields, selectorFields(list+".spec.selector"))
		maps.Copy(fields, selectorFields(list+".spec.podSelector"))
	}
	maps.Copy(fields, fieldsOf("status.", `array active
		object active[]
		string type active[].apiVersion active[].fieldPath active[].kind active[].name active[].namespace active[].resourceVersion active[].uid
		date-time lastScheduleTime observedSchedule.since
		object observedSchedule
		string observedSchedule.schedule* observedSchedule.timeZone
		boolean observedSchedule.paused`))
	return fields
}

func TestAdvancedCronJobCRDFields(t *testing.T) {
	checkFields(t, "advancedcronjobs", cronJobFields(false), cronJobFields(true))
}

func TestAdvancedCronJobCRDNamesAndColumns(t *testing.T) {
	c, _ := readCRD(t, "advancedcronjobs")
	names := c.Spec.Names
	got := []string{c.Spec.Group, c.Spec.Scope, names.Kind, names.Plural, strings.Join(names.ShortNames, ",")}
	if diff := cmp.Diff([]string{"apps.kruise.io", "Namespaced", "AdvancedCronJob", "advancedcronjobs", "acj"}, got); diff != "" {
		t.Errorf("0.1: names (-want +got):\n%s", diff)
	}
	columns := []column{
		{"Schedule", "string", ".spec.schedule", 0},
		{"Type", "string", ".status.type", 0},
		{"LastScheduleTime", "date", ".status.lastScheduleTime", 0},
		{"AGE", "date", ".metadata.creationTimestamp", 0},
	}
	for _, version := range c.Spec.Versions {
		if diff := cmp.Diff(columns, version.Columns); diff != "" {
			t.Errorf("0.1: %s: columns (-want +got):\n%s", version.Name, diff)
		}
		if stored := version.Name == "v1beta1"; version.Storage != stored || !version.Served || version.Subresources["status"] == nil {
			t.Errorf("0.1: %s: storage %t, served %t, subresources %v", version.Name, version.Storage, version.Served, version.Subresources)
		}
	}
	if len(c.Spec.Versions) != 2 || c.Spec.Conversion.Strategy != "Webhook" {
		t.Errorf("%d versions are served, and conversion is %q", len(c.Spec.Versions), c.Spec.Conversion.Strategy)
	}
}

// TestUndecodableAdvancedCronJobs: a list with invalid items is decoded, and an object with undecodable fields cannot
// be encoded.
func TestUndecodableAdvancedCronJobs(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := v1beta1.AddToScheme(scheme); err != nil || !scheme.Recognizes(v1beta1.GroupVersion.WithKind("AdvancedCronJobList")) {
		t.Errorf("the kind is not registered: %v", err)
	}
	const list = `{"items":[
		{"metadata":{"name":"good"},"spec":{"schedule":"@daily","template":{"jobTemplate":{"spec":{"backoffLimit":2}}}}},
		{"metadata":{"name":"job"},"spec":{"schedule":"@daily","template":{"jobTemplate":{"spec":{"backoffLimit":"two"}}}}},
		{"metadata":{"name":"broadcast"},"spec":{"schedule":"@daily","template":{"broadcastJobTemplate":{"spec":{"parallelism":9999999999999}}}}},
		{"metadata":{"name":"labels"},"spec":{"schedule":"@daily","template":{"broadcastJobTemplate":{"metadata":{"labels":{"a":7}}}}}},
		{"metadata":{"name":"time"},"spec":{"schedule":"@daily"},"status":{"type":"Job","lastScheduleTime":"2026-01-01t00:00:00z"}}]}`
	var got v1beta1.AdvancedCronJobList
	if err := utiljson.Unmarshal([]byte(list), &got); err != nil {
		t.Fatal(err)
	}
	if good := &got.Items[0].Spec; len(good.Undecodable) > 0 || *good.Template.JobTemplate.Spec.BackoffLimit != 2 {
		t.Errorf("%+v", good)
	}
	for i, path := range []string{
		"spec.template.jobTemplate.spec.backoffLimit", "spec.template.broadcastJobTemplate.spec.parallelism", "spec.template.broadcastJobTemplate.metadata.labels",
	} {
		if odd := &got.Items[i+1].Spec; len(odd.Undecodable) != 1 || !strings.HasPrefix(odd.Undecodable[0].Path, path) {
			t.Errorf("%+v, want %s", odd.Undecodable, path)
		}
		if _, err := json.Marshal(got.Items[i+1]); err == nil {
			t.Error("a spec that was not read in full is written")
		}
	}
	if s := &got.Items[4].Status; s.Type != "Job" || s.LastScheduleTime != nil {
		t.Errorf("%+v", s)
	}
}
