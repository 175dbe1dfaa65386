package fakecri

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

func (s *Sandbox) state() runtimeapi.PodSandboxState {
	if s.Ended {
		return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
	}
	return runtimeapi.PodSandboxState_SANDBOX_READY
}

func (s *Sandbox) metadata() *runtimeapi.PodSandboxMetadata {
	return &runtimeapi.PodSandboxMetadata{Name: s.Name, Namespace: s.Namespace, Uid: s.UID, Attempt: s.Attempt}
}

func (r *runtimeService) ListPodSandbox(_ context.Context, request *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	filter := request.GetFilter()
	all := r.opts.Machine.Sandboxes()
	id := filter.GetId()
	if i, err := find(all, sandboxID, id); err == nil {
		id = all[i].ID
	}
	response := &runtimeapi.ListPodSandboxResponse{}
	for i := range all {
		s := &all[i]
		if (id == "" || id == s.ID) && (filter.GetState() == nil || filter.GetState().GetState() == s.state()) &&
			selected(filter.GetLabelSelector(), s.Labels) {
			response.Items = append(response.Items, &runtimeapi.PodSandbox{
				Id: s.ID, Metadata: s.metadata(), State: s.state(), CreatedAt: nanoseconds(s.Created),
				Labels: s.Labels, Annotations: s.Annotations,
			})
		}
	}
	return response, nil
}

func (r *runtimeService) PodSandboxStatus(_ context.Context, request *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	all := r.opts.Machine.Sandboxes()
	i, err := find(all, sandboxID, request.GetPodSandboxId())
	if err != nil {
		return nil, fmt.Errorf("an error occurred when try to find sandbox: %w", err)
	}
	s := &all[i]
	return &runtimeapi.PodSandboxStatusResponse{Status: &runtimeapi.PodSandboxStatus{
		Id: s.ID, Metadata: s.metadata(), State: s.state(), CreatedAt: nanoseconds(s.Created),
		Network: &runtimeapi.PodSandboxNetworkStatus{Ip: s.IP},
		Linux:   &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: &runtimeapi.NamespaceOption{}}},
		Labels:  s.Labels, Annotations: s.Annotations,
	}}, nil
}
