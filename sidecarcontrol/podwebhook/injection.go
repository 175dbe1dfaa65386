package podwebhook

import (
	"context"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/workloadkit/workloadkit/sidecarcontrol"
)

// Injection says which sidecars are injected. Its webhook must have reinvocationPolicy Never, which is the default: a second call would replace the
// sidecars by new ones, without what the API server has added to the first (tokens, limits of a LimitRange), and would draw again which version of
// a pinned set the Pod gets.
type Injection struct {
	// Control injects. Required.
	Control *sidecarcontrol.Control
	// Sets returns those that match a Pod, as sidecarcontrol.Index.Match does. An error, because the sets are not known yet for example,
	// refuses the Pod. Required.
	Sets func(ctx context.Context, pod *corev1.Pod) ([]*sidecarcontrol.Set, error)
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Step returns the step that injects sidecars. It warns where one replaces a container of the Pod, as OpenKruise's do in silence.
func (i Injection) Step(name string) (Step, error) {
	if i.Control == nil || i.Sets == nil {
		return Step{}, fmt.Errorf("podwebhook: step %q needs a Control and Sets", name)
	}
	if i.Clock == nil {
		i.Clock = clock.RealClock{}
	}
	return Step{Name: name, Mutate: i.inject, Warn: i.warn}, nil
}

func (i Injection) inject(ctx context.Context, pod *corev1.Pod, request *admission.Request) error {
	sets, err := i.Sets(ctx, pod)
	if err != nil {
		return fmt.Errorf("sidecars of the Pod: %w", err)
	}
	_, err = i.Control.Inject(pod, sets, sidecarcontrol.Facts{Now: i.now(), Seed: seed(request)})
	return err
}

// warn tells of containers that had the name of a sidecar.
func (i Injection) warn(before, after *corev1.Pod) (warnings []string) {
	for _, path := range i.Control.Replaced(before, after) {
		warnings = append(warnings, path+" is replaced by a sidecar of this name")
	}
	return warnings
}

func (i Injection) now() time.Time { return i.Clock.Now() }

// seed differs for each request.
func seed(request *admission.Request) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(request.UID)) // it never fails
	return h.Sum64()
}
