package controlplane_test

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// helperEnv makes the test binary a program with a control plane in the directory in helperEnv, for tests that kill the
// program.
const helperEnv = "CONTROLPLANE_TEST_DIR"

var env = controlplanetest.New(controlplane.Options{Nodes: 4, AuditLog: "audit.log"})

func TestMain(m *testing.M) {
	if dir := os.Getenv(helperEnv); dir != "" {
		os.Exit(helper(dir))
	}
	os.Exit(env.Main(m))
}

func helper(dir string) int {
	cp, err := controlplane.Start(context.Background(), controlplane.Options{Dir: dir, Nodes: 1})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	fmt.Println("ready", cp.Kubeconfig())
	if err := cp.Wait(context.Background()); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
