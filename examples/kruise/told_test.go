package kruise

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestToldOnce(t *testing.T) {
	gone := map[types.UID]bool{}
	told := &Told{&Memory[map[string]string]{of: map[types.UID]map[string]string{}, exists: func(uid types.UID) bool { return !gone[uid] }}}
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
		t.Error("what was said of one object was not said of another")
	}
	told.Forget("a")
	if !told.IsNews("a", "full", "three are too many") || told.IsNews("b", "full", "three are too many") {
		t.Error("it forgets another object")
	}
	told.IsNews("a", "full", "")
	gone["b"] = true
	told.Forget("b")
	if !told.IsNews("b", "full", "three are too many") {
		t.Error("what is gone was spoken of")
	}
	if _, left := told.said.of["b"]; left {
		t.Errorf("%v is left", told.said.of)
	}
}
