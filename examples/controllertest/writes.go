package controllertest

import (
	"strings"
	"testing"
	"time"

	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
)

// writesPoll is how often FewWrites reads the audit log.
const writesPoll = 100 * time.Millisecond

// FewWrites observes the writes in a namespace for the time window. The test fails as soon as clients whose user
// agent begins with agent have sent more than most writes to the namespace, including refused writes. Writes of
// events and leases do not count. FewWrites is for tests of a workload that cannot make progress: the controllers
// must not load the API server with useless attempts.
func FewWrites(t testing.TB, auditLog, agent, namespace string, window time.Duration, most int) {
	t.Helper()
	offset := End(t, auditLog) // earlier writes do not count
	var writes []Request
	over := time.NewTimer(window)
	defer over.Stop()
	tick := time.NewTicker(writesPoll)
	defer tick.Stop()
	for last := false; !last; {
		select {
		case <-over.C:
			last = true
		case <-tick.C:
		}
		requests, next, err := audit.Read(auditLog, offset, agent)
		if err != nil {
			t.Fatal(err)
		}
		offset = next
		writes = append(writes, writesIn(requests, namespace)...)
		if len(writes) > most {
			t.Errorf("%d writes within %v, at most %d are fine: %v", len(writes), window, most, Tally(writes, namespace))
			return
		}
	}
}

// writesIn returns the requests that could have changed an object in a namespace.
func writesIn(requests []Request, namespace string) []Request {
	var out []Request
	for _, r := range requests {
		resource, _, _ := strings.Cut(r.Resource, "/")
		if r.Namespace == namespace && r.IsWrite() && resource != "events" && resource != "leases" {
			out = append(out, r)
		}
	}
	return out
}
