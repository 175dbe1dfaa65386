package realnode_test

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/realnode"
)

// enableEnv enables the tests of this package. The tests need root: "make test-node" sets the variable.
const enableEnv = "WORKLOADKIT_NODE"

const (
	within = time.Minute
	// The first start builds the binaries.
	startTimeout = 20 * time.Minute
)

var (
	env  = controlplanetest.New(controlplane.Options{Nodes: controlplane.NoNodes, AuditLog: "audit.log"})
	node = &sharedNode{}
)

// sharedNode is the Node of all tests of the package.
type sharedNode struct {
	mu   sync.Mutex
	node *realnode.Node
}

func TestMain(m *testing.M) {
	ctrllog.SetLogger(logr.Discard())
	if os.Getenv(enableEnv) != "" {
		if err := realnode.Prerequisites(context.Background()); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	code := env.Main(m)
	if err := node.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func (s *sharedNode) start(t testing.TB) *realnode.Node {
	t.Helper()
	if os.Getenv(enableEnv) == "" {
		t.Skip("starts a real kubelet, as root: run make test-node")
	}
	cp := env.Start(t)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		var err error
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), startTimeout)
		defer cancel()
		if s.node, err = realnode.Start(ctx, realnode.Options{ControlPlane: cp, Progress: os.Stderr}); err != nil {
			t.Fatal(err)
		}
	}
	return s.node
}

// stop ends the Node, if the Node runs. The next test that needs a Node starts a new Node.
func (s *sharedNode) stop() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.node == nil {
		return nil
	}
	err := s.node.Stop(context.Background())
	s.node = nil
	return err
}
