package fakecri

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// runtimeService serves the calls about sandboxes and containers.
type runtimeService struct {
	runtimeapi.UnimplementedRuntimeServiceServer

	opts Options
}

func (r *runtimeService) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{
		Version: "0.1.0", RuntimeName: r.opts.Name, RuntimeVersion: r.opts.Version, RuntimeApiVersion: "v1",
	}, nil
}

func (r *runtimeService) Status(context.Context, *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
		{Type: runtimeapi.RuntimeReady, Status: true},
		{Type: runtimeapi.NetworkReady, Status: true},
	}}}, nil
}

func (r *runtimeService) ListContainers(_ context.Context, request *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	filter := request.GetFilter()
	all := r.opts.Machine.Containers()
	sandboxes := r.opts.Machine.Sandboxes()
	id, sandbox := filter.GetId(), filter.GetPodSandboxId()
	if i, err := find(all, containerID, id); err == nil {
		id = all[i].ID
	}
	if i, err := find(sandboxes, sandboxID, sandbox); err == nil {
		sandbox = sandboxes[i].ID
	}
	response := &runtimeapi.ListContainersResponse{}
	for i := range all {
		c := &all[i]
		if (id == "" || id == c.ID) && (sandbox == "" || sandbox == c.SandboxID) &&
			(filter.GetState() == nil || filter.GetState().GetState() == c.State()) && selected(filter.GetLabelSelector(), c.Labels) {
			response.Containers = append(response.Containers, listed(c))
		}
	}
	return response, nil
}

// selected reports whether the labels have all wanted values.
func selected(want, have map[string]string) bool {
	for key, value := range want {
		if got, ok := have[key]; !ok || got != value {
			return false
		}
	}
	return true
}

// listed converts a container for a list. As in containerd, the field image has the image's ID, because a kubelet
// creates containers from image IDs.
func listed(c *Container) *runtimeapi.Container {
	return &runtimeapi.Container{
		Id: c.ID, PodSandboxId: c.SandboxID,
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: c.Attempt},
		Image:    &runtimeapi.ImageSpec{Image: c.ImageID, UserSpecifiedImage: c.Image},
		ImageRef: c.ImageID, ImageId: c.ImageID,
		State: c.State(), CreatedAt: nanoseconds(c.Created), Labels: c.Labels, Annotations: c.Annotations,
	}
}

func nanoseconds(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func containerID(c *Container) string { return c.ID }
func sandboxID(s *Sandbox) string     { return s.ID }

// find returns the index of the object with an ID. A prefix of the ID is enough if no other ID has the same prefix.
func find[T any](all []T, idOf func(*T) string, id string) (int, error) {
	if id == "" {
		return -1, errors.New("prefix can't be empty")
	}
	found := -1
	for i := range all {
		switch have := idOf(&all[i]); {
		case have == id:
			return i, nil
		case !strings.HasPrefix(have, id):
		case found >= 0:
			return -1, fmt.Errorf("multiple IDs found with provided prefix: %s", id)
		default:
			found = i
		}
	}
	if found < 0 {
		return -1, ErrNotFound
	}
	return found, nil
}

// container returns the container with an ID.
func (r *runtimeService) container(id string) (*Container, error) {
	all := r.opts.Machine.Containers()
	i, err := find(all, containerID, id)
	if err != nil {
		return nil, err
	}
	return &all[i], nil
}

func (r *runtimeService) ContainerStatus(_ context.Context, request *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, fmt.Errorf("an error occurred when try to find container %q: %w", request.GetContainerId(), err)
	}
	s := &runtimeapi.ContainerStatus{
		Id: c.ID, Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: c.Attempt},
		State: c.State(), CreatedAt: nanoseconds(c.Created), StartedAt: nanoseconds(c.Started), FinishedAt: nanoseconds(c.Finished),
		ExitCode: c.ExitCode, Reason: c.reason(), Message: c.Message,
		Image: &runtimeapi.ImageSpec{Image: c.ImageID, UserSpecifiedImage: c.Image}, ImageRef: c.ImageID, ImageId: c.ImageID,
		Labels: c.Labels, Annotations: c.Annotations,
	}
	images := r.opts.Images.List()
	if i := slices.IndexFunc(images, func(image Image) bool { return image.ID == c.ImageID }); i >= 0 {
		if tags := images[i].Tags; len(tags) > 0 {
			s.Image = &runtimeapi.ImageSpec{Image: tags[0]}
		}
		if digests := images[i].Digests; len(digests) > 0 {
			s.ImageRef = digests[0]
		}
	}
	response := &runtimeapi.ContainerStatusResponse{Status: s}
	if request.GetVerbose() {
		if response.Info, err = r.verbose(c); err != nil {
			return nil, err
		}
	}
	return response, nil
}

// reason returns the reason why the container has ended.
func (c *Container) reason() string {
	switch {
	case c.Reason != "" || c.Finished.IsZero():
		return c.Reason
	case c.ExitCode == 0:
		return "Completed"
	default:
		return "Error"
	}
}

// StopContainer returns no error if the container does not run or is unknown.
func (r *runtimeService) StopContainer(ctx context.Context, request *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	c, err := r.container(request.GetContainerId())
	switch {
	case errors.Is(err, ErrNotFound):
		return &runtimeapi.StopContainerResponse{}, nil
	case err != nil:
		return nil, fmt.Errorf("an error occurred when try to find container %q: %w", request.GetContainerId(), err)
	case c.State() != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return &runtimeapi.StopContainerResponse{}, nil
	}
	grace := time.Duration(request.GetTimeout()) * time.Second
	if err := r.opts.Machine.Stop(ctx, c.ID, max(grace, 0)); err != nil && !errors.Is(err, ErrNotFound) {
		return nil, fmt.Errorf("failed to stop container %q: %w", c.ID, err)
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

func (r *runtimeService) ExecSync(ctx context.Context, request *runtimeapi.ExecSyncRequest) (*runtimeapi.ExecSyncResponse, error) {
	c, err := r.container(request.GetContainerId())
	if err != nil {
		return nil, fmt.Errorf("failed to exec in container: failed to find container %q in store: %w", request.GetContainerId(), err)
	}
	if c.State() != runtimeapi.ContainerState_CONTAINER_RUNNING {
		return nil, fmt.Errorf("failed to exec in container: container is in %s state", c.State())
	}
	if timeout := time.Duration(request.GetTimeout()) * time.Second; timeout > 0 {
		limited, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("timeout %s exceeded: %w", timeout, context.DeadlineExceeded))
		defer cancel()
		ctx = limited
	}
	out, errOut, code, err := r.opts.Machine.Exec(ctx, c.ID, request.GetCmd())
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to exec in container: %w", err)
	}
	// The output is truncated as in containerd, although the response can still be too large for a gRPC message.
	return &runtimeapi.ExecSyncResponse{
		Stdout: out[:min(len(out), maxMessage)], Stderr: errOut[:min(len(errOut), maxMessage)], ExitCode: code,
	}, nil
}
