package agent_test

import (
	"context"
	"runtime"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/cri"
	"github.com/workloadkit/workloadkit/reason"
)

// TestNobodyThere: an agent without an API server and without a runtime keeps running and reports both in Waiting.
// The agent and all of its goroutines end with the context.
func TestNobodyThere(t *testing.T) {
	before := runtime.NumGoroutine()
	a, err := agent.New(&rest.Config{Host: "http://127.0.0.1:1"}, "n1", restart, agent.Options{
		Runtimes: cri.NewRuntimes(func() []string { return []string{"/none"} }),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	eventually(t, func() bool {
		var codes []reason.Code
		for _, r := range a.Waiting() {
			codes = append(codes, r.Code)
		}
		return len(codes) == 2 && codes[0] == agent.PodsAwaited && codes[1] == cri.NoSocket
	})
	select {
	case err := <-ended:
		t.Fatalf("the agent has ended: %v", err)
	default:
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	eventually(t, func() bool { return runtime.NumGoroutine() <= before })
}

func TestNew(t *testing.T) {
	if _, err := agent.New(&rest.Config{}, "", restart, agent.Options{}); err == nil {
		t.Error("an agent without a Node")
	}
}

func eventually(t *testing.T, holds func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !holds(); {
		if time.Now().After(end) {
			t.Fatal("it does not come true")
		}
		time.Sleep(20 * time.Millisecond)
	}
}
