package fakecri

import (
	"encoding/json"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// containerInfo is the part of containerd's verbose information about a container that the server returns.
type containerInfo struct {
	SandboxID      string                      `json:"sandboxID"`
	Pid            uint32                      `json:"pid"`
	Removing       bool                        `json:"removing"`
	SnapshotKey    string                      `json:"snapshotKey"`
	Snapshotter    string                      `json:"snapshotter"`
	RuntimeType    string                      `json:"runtimeType"`
	RuntimeOptions any                         `json:"runtimeOptions"`
	Config         *runtimeapi.ContainerConfig `json:"config"`
	RuntimeSpec    runtimeSpec                 `json:"runtimeSpec"`
}

// runtimeSpec is a part of the OCI runtime specification.
type runtimeSpec struct {
	Version  string      `json:"ociVersion"`
	Process  specProcess `json:"process"`
	Hostname string      `json:"hostname,omitempty"`
}

// specProcess describes the process of a container.
type specProcess struct {
	Args []string `json:"args,omitempty"`
	Env  []string `json:"env,omitempty"`
	Cwd  string   `json:"cwd"`
}

// verbose returns the information about a container for a verbose request. The process has more variables than the
// configuration: PATH, and the name of the Pod as HOSTNAME.
func (r *runtimeService) verbose(c *Container) (map[string]string, error) {
	config := &runtimeapi.ContainerConfig{
		Metadata: &runtimeapi.ContainerMetadata{Name: c.Name, Attempt: c.Attempt},
		Image:    &runtimeapi.ImageSpec{Image: c.ImageID, UserSpecifiedImage: c.Image},
		Command:  c.Argv, Labels: c.Labels, Annotations: c.Annotations,
	}
	process := specProcess{Args: c.Argv, Cwd: "/", Env: []string{
		"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOSTNAME=" + c.Labels[podNameLabel],
	}}
	for _, v := range c.Env {
		config.Envs = append(config.Envs, &runtimeapi.KeyValue{Key: v.Name, Value: []byte(v.Value)})
		process.Env = append(process.Env, v.Name+"="+v.Value)
	}
	info := containerInfo{
		SandboxID: c.SandboxID, SnapshotKey: c.ID, Snapshotter: "overlayfs", RuntimeType: "io.containerd.runc.v2",
		Config: config, RuntimeSpec: runtimeSpec{Version: "1.3.0", Process: process},
	}
	if c.State() == runtimeapi.ContainerState_CONTAINER_RUNNING {
		info.Pid = 1
	}
	data, err := json.Marshal(info)
	if err != nil {
		return nil, fmt.Errorf("write the information about container %q: %w", c.ID, err)
	}
	return map[string]string{"info": string(data)}, nil
}

// podNameLabel is the kubelet's label with the name of a container's Pod.
const podNameLabel = "io.kubernetes.pod.name"
