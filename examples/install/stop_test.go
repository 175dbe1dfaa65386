package install_test

import (
	"testing"

	"github.com/workloadkit/workloadkit/examples/manager"
)

// TestStopAtOnce: a manager whose context ends before its start returns no error.
func TestStopAtOnce(t *testing.T) {
	fresh(t)
	for range 3 {
		runManager(t, env.Start(t).Config(), func(o *manager.Options) { o.Webhooks = nil })()
	}
}
