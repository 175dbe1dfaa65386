package validation_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/workloadkit/workloadkit/examples/apis/validation"
)

func TestAreDisjoint(t *testing.T) {
	for _, c := range []struct {
		name, a, b string
		want       bool
	}{
		{"all and all", "", "", false},
		{"all and some", "", "role=a", false},
		{"the same", "role=a", "role=a", false},
		{"two values", "role=a", "role=b", true},
		{"two keys", "role=a", "tier=b", false},
		{"two keys, and two values of the one", "role=a,tier=x", "role=b", true},
		{"lists that meet", "role in (a,b)", "role in (b,c)", false},
		{"lists that do not", "role in (a,b)", "role in (c,d)", true},
		{"a value and its exclusion", "role=a", "role notin (a,b)", true},
		{"a value and another exclusion", "role=c", "role notin (a,b)", false},
		{"there and not there", "role", "!role", true},
		{"a value and not there", "role=a", "!role", true},
		{"not there and excluded", "!role", "role notin (a)", false},
		{"two exclusions", "role!=a", "role!=b", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			a, errA := labels.Parse(c.a)
			b, errB := labels.Parse(c.b)
			if errA != nil || errB != nil {
				t.Fatal(errA, errB)
			}
			if got, back := validation.AreDisjoint(a, b), validation.AreDisjoint(b, a); got != c.want || back != c.want {
				t.Errorf("%v, and %v the other way round; want %v", got, back, c.want)
			}
		})
	}
}
