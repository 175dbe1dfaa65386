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

// Loop is a controller of Pods without a kind of the API. A Loop belongs to a single command or manager, like a [Kind].
type Loop struct {
	// Name is the loop's name in logs and flags.
	Name string
	// Controller is the loop's name as a user agent and as the source of events.
	Controller string
	// Workers is the number of Pods of a namespace reconciled side by side.
	Workers *int
	// Flag sets Workers; empty for none.
	Flag string
	// Gate has to be on for the loop to run; empty for none.
	Gate apps.Gate
	// WholePod reports whether work of the loop on a foreign Pod is left: until then the cache keeps the Pod whole.
	WholePod func(*corev1.Pod) bool
	// Setup adds the loop to a manager. c writes, and reads from the manager's cache.
	Setup func(ctx context.Context, mgr ctrl.Manager, c client.Client, options kruise.Options) error
}

// Loops returns the rows, in their start order.
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
