package cloneset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/decode"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// TestUndecodable: an invalid template stops only its own CloneSet, before and after a restart of the manager.
func TestUndecodable(t *testing.T) {
	t.Parallel()
	c := idle(t)
	stop := c.manage("")
	// Each entry contains a patch of the spec, and the path that the condition must name.
	broken := map[string][2]string{
		"quantity":   {`{"template":{"spec":{"overhead":{"cpu":"oops"}}}}`, "spec.template.spec.overhead.cpu"},
		"annotation": {`{"template":{"metadata":{"annotations":{"x":true}}}}`, "spec.template.metadata.annotations"},
		"slow":       {`{"template":{"spec":{"overhead":{"cpu":"1e-200000000"}}}}`, "spec.template.spec.overhead.cpu"},
		"number":     {`{"scaleStrategy":{"maxUnavailable":3000000000}}`, "spec.scaleStrategy.maxUnavailable"},
	}
	mend := `{"template":{"metadata":{"annotations":null},"spec":{"overhead":null}},"scaleStrategy":null}`
	patch := func(name, spec string) {
		t.Helper()
		cs := &v1beta1.CloneSet{}
		cs.Namespace, cs.Name = c.namespace, name
		if err := c.Patch(t.Context(), cs, client.RawPatch(types.MergePatchType, []byte(`{"spec":`+spec+`}`))); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]map[types.UID]identity{}
	for name, what := range broken {
		c.create(c.cloneSet(name, 1))
		before[name] = identities(c.pods(name))
		patch(name, what[0])
		c.until(name, hasCondition(apps.ConditionInvalidSpec, corev1.ConditionTrue, string(decode.Undecodable), what[1]))
	}
	// The schema accepts some times that the Go type refuses.
	c.create(c.cloneSet("time", 1))
	odd := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "apps.kruise.io/v1beta1", "kind": "CloneSet"}}
	odd.SetNamespace(c.namespace)
	odd.SetName("time")
	condition := `{"status":{"conditions":[{"type":"FailedScale","status":"True","lastUpdateTime":"2026-01-01t00:00:00z"}]}}`
	if err := c.Status().Patch(t.Context(), odd, client.RawPatch(types.MergePatchType, []byte(condition))); err != nil {
		t.Fatal(err)
	}
	c.create(c.cloneSet("good", 1))
	stop()
	c.manage("")
	for _, name := range []string{"good", "time"} {
		c.change(name, setImage(0, "example.test/app:v2"))
		c.until(name, settled)
	}
	c.create(c.cloneSet("late", 1))
	for name := range broken {
		patch(name, mend)
		c.until(name, withoutCondition(apps.ConditionInvalidSpec))
		c.until(name, settled)
		if diff := cmp.Diff(before[name], identities(c.pods(name))); diff != "" {
			t.Errorf("Pods of %s (-before +after):\n%s", name, diff)
		}
	}
	c.change("quantity", setImage(0, "example.test/app:v2"))
	c.until("quantity", settled)
	c.until("quantity", withoutCondition(apps.ConditionFailedUpdate))
}
