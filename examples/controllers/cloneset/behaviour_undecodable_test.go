package cloneset_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllers/cloneset"
)

// TestUndecodable: one template that makes no sense stops its own CloneSet and nobody else's, before and after a restart of the
// manager.
func TestUndecodable(t *testing.T) {
	c := idle(t)
	stop := c.manage("")
	broken := map[string]string{ // by name, patches of the template
		"quantity":   `{"spec":{"overhead":{"cpu":"oops"}}}`,
		"annotation": `{"metadata":{"annotations":{"x":true}}}`,
		"slow":       `{"spec":{"overhead":{"cpu":"1e-200000000"}}}`,
	}
	mend := `{"metadata":{"annotations":null},"spec":{"overhead":null}}`
	patch := func(name, template string) {
		t.Helper()
		cs := &v1beta1.CloneSet{}
		cs.Namespace, cs.Name = c.namespace, name
		if err := c.Patch(t.Context(), cs, client.RawPatch(types.MergePatchType, []byte(`{"spec":{"template":`+template+`}}`))); err != nil {
			t.Fatal(err)
		}
	}
	before := map[string]map[types.UID]identity{}
	for name, template := range broken {
		c.create(c.cloneSet(name, 1))
		before[name] = identities(c.pods(name))
		patch(name, template)
		path := "spec.template.spec.overhead.cpu"
		if name == "annotation" {
			path = "spec.template.metadata.annotations"
		}
		c.until(name, hasCondition(cloneset.ConditionInvalid, corev1.ConditionTrue, string(cloneset.Undecodable), path))
	}
	c.create(c.cloneSet("good", 1))
	stop()
	c.manage("")
	c.change("good", setImage(0, "example.test/app:v2"))
	c.until("good", settled)
	c.create(c.cloneSet("late", 1))
	for name := range broken {
		patch(name, mend)
		c.until(name, withoutCondition(cloneset.ConditionInvalid))
		c.until(name, settled)
		if diff := cmp.Diff(before[name], identities(c.pods(name))); diff != "" {
			t.Errorf("Pods of %s (-before +after):\n%s", name, diff)
		}
	}
	c.change("quantity", setImage(0, "example.test/app:v2"))
	c.until("quantity", settled)
	c.until("quantity", withoutCondition(apps.ConditionFailedUpdate))
}
