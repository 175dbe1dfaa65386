package daemon

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/inplaceupdate/runtimemeta"
	"github.com/workloadkit/workloadkit/node/agent"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/podstate"
)

// These are the waits between two stops of the same container because of its environment.
const (
	firstStopRest   = 3 * time.Second
	longestStopRest = 10 * time.Minute
)

// metadata reports the values of labels and annotations in the environments of running containers, and stops
// containers whose environment is outdated.
type metadata struct {
	patch func(ctx context.Context, pod types.NamespacedName, patch []byte) error
	rules runtimemeta.Rules
	rests *flowcontrol.Backoff

	mu      sync.Mutex
	written map[types.UID]written // reports that the cache does not show yet
	specs   map[types.UID]spec    // specs of Pods in an in-place update
}

// spec is a version of a Pod's spec, and when the agent first saw it during an update.
type spec struct {
	generation int64
	at         time.Time
}

// written is a report that was sent to the API server.
type written struct {
	report string
	at     time.Time
}

// lateCache is how long the cache may take to show a report that the agent has written. If the cache does not show
// the report after this time, another client has overwritten the report.
const lateCache = 5 * time.Second

func newMetadata(patch func(ctx context.Context, pod types.NamespacedName, patch []byte) error) *metadata {
	return &metadata{
		patch: patch, rests: flowcontrol.NewBackOff(firstStopRest, longestStopRest), written: map[types.UID]written{}, specs: map[types.UID]spec{},
		rules: runtimemeta.Rules{
			Condition: apps.ConditionInPlaceUpdateReady, IgnoredEnv: []string{apps.EnvSidecarSetVersion, apps.EnvSidecarSetVersionAlt},
		},
	}
}

// work is the agent's work for a Pod: a report, and stops of containers.
func (m *metadata) work(ctx context.Context, pod *agent.Pod) (again time.Duration, err error) {
	if pod.DeletionTimestamp != nil || !podstate.IsActive(pod.Pod) || !runtimemeta.Concerns(pod.Pod, apps.Group, apps.AnnotationSidecarSetHash) {
		m.forget(pod.UID)
		m.forgetSpec(pod.UID)
		return 0, nil
	}
	instances, err := m.instances(ctx, pod)
	if err != nil {
		return 0, err
	}
	before, err := runtimemeta.Decode(pod.Annotations[apps.AnnotationRuntimeContainersMeta])
	if err != nil {
		before = runtimemeta.Report{} // a report that cannot be read is replaced
	}
	step := m.rules.Next(pod.Pod, instances, before)
	failed := m.read(ctx, pod, instances, step.Read)
	if len(step.Read) > 0 {
		step = m.rules.Next(pod.Pod, instances, before)
	}
	if step.Changed {
		if err := m.write(ctx, pod.Pod, step.Report.Encode()); err != nil {
			return 0, errors.Join(err, failed)
		}
	} else {
		m.forget(pod.UID)
	}
	for _, stop := range step.Stop {
		m.stop(pod, stop.ID, stop.Name)
	}
	again = m.again(pod.Pod)
	if step.Changed && again <= 0 {
		again = lateCache // checks later whether another client has overwritten the report
	}
	return again, failed
}

// instances returns the running containers of a Pod, as the container runtime lists them.
func (m *metadata) instances(ctx context.Context, pod *agent.Pod) ([]runtimemeta.Instance, error) {
	listed, err := pod.Containers(ctx)
	out := make([]runtimemeta.Instance, 0, len(listed))
	for i := range listed {
		c := &listed[i]
		out = append(out, runtimemeta.Instance{
			ID: c.ID, Name: c.Name, Attempt: c.Attempt, Created: c.Created, Running: c.State == containerrestart.Running, Hash: c.Hash,
		})
	}
	return out, err
}

// read reads the environments of the containers with the given IDs. Environments that cannot be read are left out.
func (m *metadata) read(ctx context.Context, pod *agent.Pod, instances []runtimemeta.Instance, ids []string) error {
	var errs []error
	for _, id := range ids {
		env, err := pod.Environment(ctx, id)
		if err != nil {
			errs = append(errs, fmt.Errorf("environment of a container of Pod %s/%s: %w", pod.Namespace, pod.Name, err))
			continue
		}
		for i := range instances {
			if instances[i].ID == id {
				instances[i].Env = runtimemeta.EnvironmentOf(env)
			}
		}
	}
	return errors.Join(errs...)
}

// write sends a report, and does not send the same report again while the cache does not show it.
func (m *metadata) write(ctx context.Context, pod *corev1.Pod, report string) error {
	m.mu.Lock()
	last := m.written[pod.UID]
	m.mu.Unlock()
	if last.report == report && m.rests.Clock.Since(last.at) < lateCache {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid": pod.UID, "annotations": map[string]string{apps.AnnotationRuntimeContainersMeta: report},
	}})
	if err != nil {
		return err
	}
	err = m.patch(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}, patch)
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil // the Pod was deleted or replaced, and an event will follow
	}
	if err != nil {
		return fmt.Errorf("report about Pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.written[pod.UID] = written{report, m.rests.Clock.Now()}
	return nil
}

func (m *metadata) forget(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, pod)
}

// stop stops a container whose environment is outdated, unless the container was stopped a short while ago.
func (m *metadata) stop(pod *agent.Pod, id, name string) {
	pod.Keep(id)
	key, now := string(pod.UID)+"/"+name, m.rests.Clock.Now()
	if pod.IsStopping() || m.rests.IsInBackOffSinceUpdate(key, now) {
		return
	}
	m.rests.Next(key, now)
	m.rests.GC()
	_ = pod.Stop(id, nil) // the container is stopped even if the hook cannot be run
}

// These are the intervals at which the agent checks a Pod during an in-place update. A kubelet restarts a container
// within about a tenth of a second, and evaluates the Pod's readiness a second later. The Pod becomes ready a second
// earlier if its readiness gate, which opens only after the agent's report, is already open at this time. So the
// agent checks often just after a change of the Pod's spec.
const (
	restarting      = 2 * time.Second // the time after a change of the spec with the shortest interval
	restartingLooks = 20 * time.Millisecond
	earlyLooks      = 200 * time.Millisecond // in the first 10 seconds
	lateLooks       = time.Second            // in the first minute
	seldomLooks     = 5 * time.Second
)

// again returns the time until the next check of a Pod during an in-place update. The agent checks the container
// runtime, because the runtime lists a new container instance before the kubelet reports the instance.
func (m *metadata) again(pod *corev1.Pod) time.Duration {
	condition := podstate.Condition(pod, apps.ConditionInPlaceUpdateReady)
	if condition == nil || condition.Status != corev1.ConditionFalse {
		m.forgetSpec(pod.UID)
		return 0
	}
	now := m.rests.Clock.Now()
	if now.Sub(m.specSince(pod, now)) < restarting {
		return restartingLooks
	}
	switch age := now.Sub(condition.LastTransitionTime.Time); {
	case age < 10*time.Second:
		return earlyLooks
	case age < time.Minute:
		return lateLooks
	}
	return seldomLooks
}

// specSince returns the time when the agent first saw the Pod's present spec during an update.
func (m *metadata) specSince(pod *corev1.Pod, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	if seen, known := m.specs[pod.UID]; known && seen.generation == pod.Generation {
		return seen.at
	}
	m.specs[pod.UID] = spec{pod.Generation, now}
	return now
}

func (m *metadata) forgetSpec(pod types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.specs, pod)
}
