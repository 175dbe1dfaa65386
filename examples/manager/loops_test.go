package manager_test

import (
	"context"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	ctrlmanager "sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/manager"
)

// TestLoopsAreSetUp: loops are set up with their own numbers of workers, after the controllers of the kinds. A loop
// whose feature gate is off is not set up.
func TestLoopsAreSetUp(t *testing.T) {
	const on, off apps.Gate = "On", "Off"
	set, cp := make(chan string, 3), newCluster(t).cp
	loop := func(name string, workers int, gate apps.Gate) kinds.Loop {
		return kinds.Loop{
			Name: name, Controller: name, Workers: &workers, Gate: gate,
			Setup: func(_ context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error {
				if mgr == nil || c == nil || options.Workers != workers || options.RateLimiter == nil || options.Metrics != nil {
					t.Errorf("%s: workers %d, options %+v", name, options.Workers, options)
				}
				set <- name
				return nil
			},
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		done <- manager.Run(ctx, cp.Config(), manager.Options{
			Namespace: "default", Registry: prometheus.NewRegistry(), Kinds: []kind.Row{},
			Gates: map[apps.Gate]bool{on: true},
			Loops: []kinds.Loop{loop("plain", 7, ""), loop("idle", 1, off), loop("gated", 2, on)},
		})
	}()
	for _, want := range []string{"plain", "gated"} {
		select {
		case got := <-set:
			if got != want {
				t.Errorf("loop %s was set up, want %s", got, want)
			}
		case err := <-done:
			t.Fatalf("the manager ended: %v", err)
		case <-time.NewTimer(time.Minute).C:
			t.Fatalf("%s was not set up", want)
		}
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// TestStopWaitsForSetup: a manager that must stop while a controller is being added finishes adding the controller,
// and adds no further controller.
func TestStopWaitsForSetup(t *testing.T) {
	cp := newCluster(t).cp
	ctx, cancel := context.WithCancel(t.Context())
	var set []string
	setup := func(_ context.Context, mgr ctrl.Manager, _ client.Client, _ kruise.Options) error {
		set = append(set, "one")
		cancel()
		began := make(chan struct{})
		for range 200 { // without the launcher, a stopping manager would refuse controllers, or block
			err := mgr.Add(ctrlmanager.RunnableFunc(func(ctx context.Context) error {
				began <- struct{}{}
				<-ctx.Done()
				return nil
			}))
			if err != nil {
				return err
			}
			<-began
		}
		return nil
	}
	workers := 1
	err := manager.Run(ctx, cp.Config(), manager.Options{
		Namespace: "default", Registry: prometheus.NewRegistry(), Kinds: []kind.Row{},
		Loops: []kinds.Loop{{Name: "first", Controller: "first", Workers: &workers, Setup: setup}, {Name: "second", Controller: "second", Workers: &workers, Setup: setup}},
	})
	if err != nil || len(set) != 1 {
		t.Errorf("set up %v, %v", set, err)
	}
}

// TestStopEndsSetup: a setup that never returns does not keep the manager from stopping.
func TestStopEndsSetup(t *testing.T) {
	cp := newCluster(t).cp
	ctx, cancel := context.WithCancel(t.Context())
	setup := func(ctx context.Context, _ ctrl.Manager, _ client.Client, _ kruise.Options) error {
		cancel()
		<-ctx.Done()
		return ctx.Err()
	}
	workers := 1
	err := manager.Run(ctx, cp.Config(), manager.Options{
		Namespace: "default", Registry: prometheus.NewRegistry(), Kinds: []kind.Row{},
		Loops: []kinds.Loop{{Name: "hangs", Controller: "hangs", Workers: &workers, Setup: setup}},
	})
	if err != nil {
		t.Error(err)
	}
}
