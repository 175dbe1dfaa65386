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

// Injection says which sidecars are injected. Its webhook must have reinvocationPolicy Never, the default. A second
// call would replace the sidecars by new sidecars, without the API server's additions to the first (tokens, limits of a
// LimitRange), and would draw the Pod's version of a pinned set again.
type Injection struct {
	// Control injects. Required.
	Control *sidecarcontrol.Control
	// Sets returns the sets of a Pod, like sidecarcontrol.Index.Match. An error, for example because the sets are not
	// known yet, refuses the Pod. Required.
	Sets func(ctx context.Context, pod *corev1.Pod) ([]*sidecarcontrol.Set, error)
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Mutator returns the Mutator that injects sidecars. The Mutator warns if a sidecar replaces a container of the Pod;
// OpenKruise replaces silently.
func (i Injection) Mutator(name string) (Mutator, error) {
	if i.Control == nil || i.Sets == nil {
		return Mutator{}, fmt.Errorf("podwebhook: step %q needs a Control and Sets", name)
	}
	if i.Clock == nil {
		i.Clock = clock.RealClock{}
	}
	return Mutator{Name: name, Mutate: i.inject, Warn: i.warn}, nil
}

func (i Injection) inject(ctx context.Context, pod *corev1.Pod, request *admission.Request) error {
	sets, err := i.Sets(ctx, pod)
	if err != nil {
		return fmt.Errorf("sidecars of the Pod: %w", err)
	}
	_, err = i.Control.Inject(pod, sets, sidecarcontrol.Facts{Now: i.now(), Seed: seed(request)})
	return err
}

// warn names containers with the name of a sidecar.
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
	_, _ = h.Write([]byte(request.UID)) // Write never fails
	return h.Sum64()
}
