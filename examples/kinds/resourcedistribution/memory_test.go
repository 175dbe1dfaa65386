package resourcedistribution

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// owners are ResourceDistributions that a test can delete.
type owners struct {
	gone   bool
	forget []func(types.UID)
}

func (o *owners) Exists(types.UID) bool         { return !o.gone }
func (o *owners) OnGone(forget func(types.UID)) { o.forget = append(o.forget, forget) }

func (o *owners) lose(owner types.UID) {
	for _, forget := range o.forget {
		forget(owner)
	}
}

// TestMemory: the process remembers copies only in wanted namespaces, and only while the ResourceDistribution exists.
func TestMemory(t *testing.T) {
	type byNamespace = map[string]known
	objects := &owners{}
	m := newMemory(objects)
	m.Keep("u1", "a", known{UID: "early"})
	if diff := cmp.Diff(byNamespace{}, m.Of("u1", []string{"a"})); diff != "" {
		t.Errorf("nobody had asked for it (-want +got):\n%s", diff)
	}
	a, b := known{UID: "a"}, known{UID: "b"}
	m.Keep("u1", "a", a)
	m.Keep("u1", "b", b)
	got := m.Of("u1", []string{"a", "b", "c"})
	if diff := cmp.Diff(byNamespace{"a": a, "b": b}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	delete(got, "a") // the caller may modify the result
	if diff := cmp.Diff(byNamespace{"a": a}, m.Of("u1", []string{"a"})); diff != "" {
		t.Errorf("without b (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(byNamespace{"a": a}, m.Of("u1", []string{"a", "b"})); diff != "" {
		t.Errorf("b was of no interest (-want +got):\n%s", diff)
	}
	objects.lose("u1")
	m.Keep("u1", "a", a)
	if diff := cmp.Diff(byNamespace{}, m.Of("u1", []string{"a"})); diff != "" {
		t.Errorf("of one that is gone (-want +got):\n%s", diff)
	}
	objects.gone = true
	objects.lose("u1")
	m.Of("u1", []string{"a"}) // called by a reconciliation that began before the deletion
	m.Keep("u1", "a", a)
	if objects.gone = false; len(m.Of("u1", []string{"a"})) != 0 {
		t.Error("one that is gone is remembered, and nobody will ever forget it")
	}
}
