package main

import (
	"strings"
	"testing"
)

func TestInvite(t *testing.T) {
	for _, w := range workloads() {
		var out strings.Builder
		invite(t.Context(), &out, "/tmp/kubeconfig", w.name, false)
		for _, want := range []string{"why ", "--preview", "rollout watch "} {
			if line := want + resource(w.name); want != "--preview" && !strings.Contains(out.String(), line) || !strings.Contains(out.String(), want) {
				t.Errorf("%s: no %q in\n%s", w.name, want, out.String())
			}
		}
	}
}
