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

// Injection says which sidecars are injected. The webhook's configuration must have the reinvocationPolicy Never,
// which is the default. A second call would replace the injected sidecars by new sidecars, so the additions of the
// API server to the first sidecars (tokens, limits of a LimitRange) would be lost. The second call would also choose
// the Pod's version of a pinned set again.
type Injection struct {
	// Control injects the sidecars. Required.
	Control *sidecarcontrol.Control
	// Sets returns the sets that match a Pod, like sidecarcontrol.Index.Match. If Sets returns an error, for example
	// because the caches are not synced yet, the Pod is refused. Required.
	Sets func(ctx context.Context, pod *corev1.Pod) ([]*sidecarcontrol.Set, error)
	// Clock defaults to the real clock.
	Clock clock.PassiveClock
}

// Mutator returns the Mutator that injects sidecars. The Mutator warns if a sidecar replaces a container of the Pod;
// OpenKruise replaces such a container without a warning.
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

// warn returns a warning for each container that a sidecar of the same name has replaced.
func (i Injection) warn(before, after *corev1.Pod) (warnings []string) {
	for _, path := range i.Control.Replaced(before, after) {
		warnings = append(warnings, path+" is replaced by a sidecar of this name")
	}
	return warnings
}

func (i Injection) now() time.Time { return i.Clock.Now() }

// seed returns a different number for each request.
func seed(request *admission.Request) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(request.UID)) // a hash's Write never returns an error
	return h.Sum64()
}
