package kinds

import (
	"context"
	"sync"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/controllers/launchpriority"
	"github.com/workloadkit/workloadkit/examples/controllers/podreadiness"
	"github.com/workloadkit/workloadkit/examples/controllers/sidecarterminator"
	"github.com/workloadkit/workloadkit/examples/kruise"
)

// Loop is a reconcile loop over Pods without a separate API kind. Do not share a Loop between several managers or command
// lines: make a new Loop for each, as for a kind.Row.
type Loop struct {
	// Name is the loop's name in logs and flags.
	Name string
	// Controller is the loop's user agent, and the source of the loop's events.
	Controller string
	// Workers is the number of Pods of the same namespace to reconcile at the same time.
	Workers *int
	// Flag is the name of the flag for Workers; if empty, there is no flag.
	Flag string
	// Gate is the feature gate without which the loop does not run; if empty, the loop always runs.
	Gate apps.Gate
	// WholePod reports whether the loop has work to do on a Pod whose owner is of another API group. The manager's
	// cache keeps all fields of such a Pod.
	WholePod func(*corev1.Pod) bool
	// Setup adds the loop to a manager. The loop writes with c, and c must read from the manager's cache.
	Setup func(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error
}

// Loops returns the loops in the order in which the manager starts the loops.
func Loops() []Loop {
	return []Loop{launchPriority(), podReadiness(), sidecarTerminator()}
}

func launchPriority() Loop {
	workers, order := 4, sync.OnceValues(kruise.LaunchOrder)
	waits := func(pod *corev1.Pod) bool {
		order, err := order()
		return err == nil && order.Needed(pod)
	}
	return Loop{Name: "launch-priority", Controller: launchpriority.ControllerName, Workers: &workers, WholePod: waits, Setup: launchpriority.Setup}
}

func sidecarTerminator() Loop {
	workers := 3
	return Loop{
		Name: "sidecarterminator", Controller: sidecarterminator.ControllerName, Workers: &workers, Flag: "sidecarterminator-workers",
		Gate: apps.GateSidecarTerminator, WholePod: sidecarterminator.Concerns, Setup: sidecarterminator.Setup,
	}
}

func podReadiness() Loop {
	workers := 3
	return Loop{Name: "pod-readiness", Controller: podreadiness.ControllerName, Workers: &workers, WholePod: podreadiness.Concerns, Setup: podreadiness.Setup}
}

// AddLoopFlags adds the flags of the loops to a command line.
func AddLoopFlags(loops []Loop, fs *pflag.FlagSet) {
	for _, l := range loops {
		if l.Flag != "" {
			fs.IntVar(l.Workers, l.Flag, *l.Workers, "Pods of one namespace that "+l.Controller+" looks at side by side; namespaces take turns")
		}
	}
}
