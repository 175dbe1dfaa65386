package persistentpodstate

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func TestChanges(t *testing.T) {
	status := func(generation int64, states records) v1beta1.PersistentPodStateStatus {
		return v1beta1.PersistentPodStateStatus{ObservedGeneration: generation, PodStates: states}
	}
	one, two := records{"db-0": at("n1")}, records{"db-0": at("n1"), "db-1": at("n2")}
	for _, c := range []struct {
		name          string
		before, after v1beta1.PersistentPodStateStatus
		want          []string
	}{
		{"nothing", status(1, one), status(1, one), nil},
		{"no records either way", status(1, nil), status(1, records{}), nil},
		{"the first", status(0, nil), status(1, one), []string{"add /status"}},
		{"the first records", status(1, nil), status(1, one), []string{"add /status/podStates"}},
		{"one more", status(1, one), status(1, two), []string{"add /status/podStates/db-1"}},
		{"one less", status(1, two), status(1, one), []string{"remove /status/podStates/db-1"}},
		{"the last", status(1, two), status(1, nil), []string{"remove /status/podStates"}},
		{"another Node, and a generation", status(1, two), status(2, records{"db-0": at("n1"), "db-1": at("n3")}), []string{"add /status/observedGeneration", "add /status/podStates/db-1"}},
		{"a name that has to be spelled", status(1, records{"a/b~c": at("x"), "d": at("x")}), status(1, records{"d": at("x")}), []string{"remove /status/podStates/a~1b~0c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, pathsOf(c.before, c.after)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// pathsOf returns the operations from status before to status after, by path.
func pathsOf(before, after v1beta1.PersistentPodStateStatus) (paths []string) {
	for _, o := range changes(&before, &after) {
		paths = append(paths, o.Op+" "+o.Path)
	}
	return paths
}
