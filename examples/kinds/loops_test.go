package kinds_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"

	"github.com/workloadkit/workloadkit/examples/kinds"
)

// TestLoops: each loop has all required fields, and no other loop has the same names.
func TestLoops(t *testing.T) {
	taken := map[string]bool{}
	for _, k := range kinds.All() {
		taken[k.Controller], taken[k.Name()], taken[k.WorkersFlag()] = true, true, true
	}
	delete(taken, "") // kinds without a controller have no name
	for _, l := range kinds.Loops() {
		t.Run(l.Name, func(t *testing.T) {
			if l.Workers == nil || *l.Workers < 1 || l.Setup == nil || l.Name == "" || l.Controller == "" {
				t.Fatalf("loop %+v: want names, workers and a Setup", l)
			}
			for _, name := range []string{l.Name, l.Controller, l.Flag} {
				if taken[name] {
					t.Errorf("%q is in use already", name)
				}
				taken[name] = name != ""
			}
			for _, other := range kinds.Loops() {
				if other.Workers == l.Workers {
					t.Errorf("%s shares its workers with another table", l.Name)
				}
			}
		})
	}
}

func TestAddLoopFlags(t *testing.T) {
	three, four := 3, 4
	fs := pflag.NewFlagSet("test", pflag.ContinueOnError)
	kinds.AddLoopFlags([]kinds.Loop{{Workers: &three, Flag: "three-workers"}, {Workers: &four}}, fs)
	var names []string
	fs.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name+"="+f.DefValue) })
	if diff := cmp.Diff([]string{"three-workers=3"}, names); diff != "" {
		t.Errorf("flags (-want +got):\n%s", diff)
	}
	if err := fs.Parse([]string{"--three-workers=7"}); err != nil {
		t.Fatal(err)
	}
	if three != 7 || four != 4 {
		t.Errorf("workers %d and %d, want 7 and 4", three, four)
	}
}
