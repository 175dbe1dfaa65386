package cri

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimev1 "k8s.io/cri-api/pkg/apis/runtime/v1"

	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

// These are labels and annotations that a kubelet writes on containers: pkg/kubelet/kuberuntime/labels.go of
// Kubernetes.
const (
	labelPodName      = "io.kubernetes.pod.name"
	labelPodNamespace = "io.kubernetes.pod.namespace"
	labelPodUID       = "io.kubernetes.pod.uid"
	labelName         = "io.kubernetes.container.name"

	noteRestarts         = "io.kubernetes.container.restartCount"
	noteHash             = "io.kubernetes.container.hash"
	notePreStop          = "io.kubernetes.container.preStopHandler"
	notePorts            = "io.kubernetes.container.ports"
	noteDeletionGrace    = "io.kubernetes.pod.deletionGracePeriod"
	noteTerminationGrace = "io.kubernetes.pod.terminationGracePeriod"
)

// NoEnvironment means that a runtime does not report the environment of a container.
const NoEnvironment reason.Code = "NoEnvironment"

// Container is an instance of a container of a Pod. Labels and annotations of the kubelet that cannot be parsed are
// left out.
type Container struct {
	containerrestart.Instance

	// PodNamespace, PodName and PodUID identify the Pod.
	PodNamespace, PodName string
	PodUID                types.UID
	// Hash is the kubelet's hash of the container's spec; empty if unknown.
	Hash string
	// PreStop and Ports are the preStop hook and the ports with which the instance was started.
	PreStop *corev1.LifecycleHandler
	Ports   []corev1.ContainerPort
}

// Containers lists the containers of a Pod, or of all Pods if the UID is empty, with all instances that the runtime
// knows: sorted by Pod and name, and the newest instance first.
func (r *Runtime) Containers(ctx context.Context, pod types.UID) ([]Container, error) {
	filter := &runtimev1.ContainerFilter{}
	if pod != "" {
		filter.LabelSelector = map[string]string{labelPodUID: string(pod)}
	}
	list, err := call(r, func(c runtimev1.RuntimeServiceClient) (*runtimev1.ListContainersResponse, error) {
		return c.ListContainers(ctx, &runtimev1.ListContainersRequest{Filter: filter})
	})
	if err != nil {
		return nil, err
	}
	var out []Container
	for _, listed := range list.GetContainers() {
		answer, err := r.status(ctx, listed.GetId(), false)
		switch {
		case isUnknown(err): // the runtime has removed the container since the list was made
		case err != nil:
			return nil, err
		case answer.GetStatus().GetLabels()[labelPodUID] != "" && (pod == "" || answer.GetStatus().GetLabels()[labelPodUID] == string(pod)):
			out = append(out, containerOf(answer.GetStatus()))
		}
	}
	slices.SortFunc(out, func(a, b Container) int {
		return cmp.Or(cmp.Compare(a.PodUID, b.PodUID), cmp.Compare(a.Name, b.Name), cmp.Compare(b.Attempt, a.Attempt), b.Created.Compare(a.Created))
	})
	return out, nil
}

func (r *Runtime) status(ctx context.Context, id string, verbose bool) (*runtimev1.ContainerStatusResponse, error) {
	return call(r, func(c runtimev1.RuntimeServiceClient) (*runtimev1.ContainerStatusResponse, error) {
		return c.ContainerStatus(ctx, &runtimev1.ContainerStatusRequest{ContainerId: id, Verbose: verbose})
	})
}

func containerOf(s *runtimev1.ContainerStatus) Container {
	labels, notes := s.GetLabels(), s.GetAnnotations()
	c := Container{
		Instance: containerrestart.Instance{
			ID: s.GetId(), Name: cmp.Or(labels[labelName], s.GetMetadata().GetName()), State: stateOf(s.GetState()),
			Attempt: int32(min(s.GetMetadata().GetAttempt(), 1<<31-1)), //nolint:gosec // min avoids an overflow
			Created: timeOf(s.GetCreatedAt()), Started: timeOf(s.GetStartedAt()), Finished: timeOf(s.GetFinishedAt()),
			ExitCode: s.GetExitCode(), Grace: graceOf(notes),
		},
		PodNamespace: labels[labelPodNamespace], PodName: labels[labelPodName], PodUID: types.UID(labels[labelPodUID]), Hash: notes[noteHash],
	}
	if n, err := strconv.ParseInt(notes[noteRestarts], 10, 32); err == nil {
		c.Attempt = int32(n)
	}
	var hook corev1.LifecycleHandler
	if json.Unmarshal([]byte(notes[notePreStop]), &hook) == nil {
		c.PreStop = &hook
	}
	if json.Unmarshal([]byte(notes[notePorts]), &c.Ports) != nil {
		c.Ports = nil
	}
	return c
}

func stateOf(s runtimev1.ContainerState) containerrestart.State {
	switch s {
	case runtimev1.ContainerState_CONTAINER_CREATED:
		return containerrestart.Created
	case runtimev1.ContainerState_CONTAINER_RUNNING:
		return containerrestart.Running
	case runtimev1.ContainerState_CONTAINER_EXITED:
		return containerrestart.Exited
	}
	return containerrestart.Unknown
}

// timeOf converts nanoseconds; 0 or less means that the time is not set.
func timeOf(nanoseconds int64) time.Time {
	if nanoseconds <= 0 {
		return time.Time{}
	}
	return time.Unix(0, nanoseconds)
}

// graceOf returns the grace period with which the Pod is deleted, or else the grace period in the Pod's spec; nil if
// neither is known.
func graceOf(notes map[string]string) *time.Duration {
	for _, key := range []string{noteDeletionGrace, noteTerminationGrace} {
		if n, err := strconv.ParseInt(notes[key], 10, 32); err == nil {
			grace := time.Duration(n) * time.Second
			return &grace
		}
	}
	return nil
}

// Environment returns the environment with which a container was started, as "NAME=value". The environment comes from
// the runtime's own data, so the image needs no shell. The values may be secret, so errors do not contain values.
func (r *Runtime) Environment(ctx context.Context, id string) ([]string, error) {
	answer, err := r.status(ctx, id, true)
	if err != nil {
		return nil, err
	}
	var info struct {
		RuntimeSpec *struct {
			Process *struct{ Env []string }
		}
	}
	if json.Unmarshal([]byte(answer.GetInfo()["info"]), &info) != nil || info.RuntimeSpec == nil || info.RuntimeSpec.Process == nil {
		return nil, reason.Reason{Code: NoEnvironment, Detail: "the runtime tells no environment of container " + reason.Shorten(id, 80)}
	}
	return info.RuntimeSpec.Process.Env, nil
}
