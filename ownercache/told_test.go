package ownercache_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/ownercache"
)

// followed are objects that a test can delete.
type followed struct {
	gone   map[types.UID]bool
	forget []func(types.UID)
}

func (f *followed) Exists(object types.UID) bool  { return !f.gone[object] }
func (f *followed) OnGone(forget func(types.UID)) { f.forget = append(f.forget, forget) }

func (f *followed) lose(object types.UID) {
	f.gone[object] = true
	for _, forget := range f.forget {
		forget(object)
	}
}

func TestToldOnce(t *testing.T) {
	objects := &followed{gone: map[types.UID]bool{}}
	told := ownercache.NewTold(objects)
	for i, step := range []struct {
		subject, text string
		want          bool
	}{
		{"full", "", false},
		{"full", "two are too many", true},
		{"full", "two are too many", false},
		{"slow", "two are too many", true},
		{"full", "three are too many", true},
		{"full", "", false},
		{"full", "three are too many", true},
		{"slow", "two are too many", false},
	} {
		if got := told.IsNews("a", step.subject, step.text); got != step.want {
			t.Errorf("%d: %+v: %t", i, step, got)
		}
	}
	if !told.IsNews("b", "full", "three are too many") {
		t.Error("a message about one object silences the message about another")
	}
	objects.lose("a")
	if !told.IsNews("a", "full", "three are too many") || told.IsNews("b", "full", "three are too many") {
		t.Error("another object is forgotten")
	}
	objects.lose("b")
	if !told.IsNews("b", "full", "three are too many") {
		t.Error("a message about a gone object is remembered")
	}
}

// TestMemoryOfTheGone: Memory.Change stores nothing about a deleted object, because no later event would remove the
// value.
func TestMemoryOfTheGone(t *testing.T) {
	objects := &followed{gone: map[types.UID]bool{"b": true}}
	memory := ownercache.NewMemory[int](objects)
	for _, object := range []types.UID{"a", "b"} {
		memory.Change(object, func(n *int) { *n++ })
	}
	if a, b := memory.Of("a"), memory.Of("b"); a != 1 || b != 0 {
		t.Errorf("of the object: %d, of the gone object: %d; want 1 and 0", a, b)
	}
}
