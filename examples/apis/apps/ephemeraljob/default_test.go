package ephemeraljob_test

import (
	"testing"

	"github.com/workloadkit/workloadkit/examples/apis/apps/ephemeraljob"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
)

func TestDefaults(t *testing.T) {
	n, spec := int32(0), &v1alpha1.EphemeralJobSpec{}
	if p, ttl := ephemeraljob.Parallelism(spec), ephemeraljob.TTLSecondsAfterFinished(spec); p != 1 || ttl != 1800 {
		t.Errorf("EJ-13 by default %d at once, and deleted after %d s", p, ttl)
	}
	spec.Parallelism, spec.TTLSecondsAfterFinished = &n, &n
	if p, ttl := ephemeraljob.Parallelism(spec), ephemeraljob.TTLSecondsAfterFinished(spec); p != 0 || ttl != 0 {
		t.Errorf("%d at once, and deleted after %d s; want 0 and 0", p, ttl)
	}
}
