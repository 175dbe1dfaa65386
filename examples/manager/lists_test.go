package manager_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/workloadkit/workloadkit/examples/manager"
)

// TestMissingRights: if a feature gate needs Secrets, and the manager may not read Secrets, the manager reports the
// missing permission and the remedy once in the log and at /readyz.
func TestMissingRights(t *testing.T) {
	var logged []string
	log := funcr.New(func(_, args string) { logged = append(logged, args) }, funcr.Options{})
	clock := testingclock.NewFakeClock(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	lists := manager.NewLists(log, clock)
	denied := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "", errors.New(`User "kruise-manager" cannot list resource "secrets"`))
	for range 3 {
		lists.Note("*v1.PartialObjectMetadata", denied)
		clock.Step(30 * time.Second)
	}
	if len(logged) != 1 || !strings.Contains(logged[0], "secrets is forbidden") || !strings.Contains(logged[0], "examples/config/imagepulljob") {
		t.Errorf("log %q", logged)
	}
	if err := lists.Ready(); !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), "ImagePullJobGate") {
		t.Errorf("ready: %v", err)
	}
	clock.Step(time.Minute)
	if err := lists.Ready(); err != nil {
		t.Errorf("after the right was granted: %v", err)
	}
	lists.Note("*v1.Pod", errors.New("connection refused"))
	if err := lists.Ready(); err != nil || len(logged) != 1 {
		t.Errorf("a failure that may be over soon: ready %v, log %q", err, logged)
	}
}
