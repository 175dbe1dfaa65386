package cri

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/workloadkit/workloadkit/reason"
)

// Usual returns the socket paths that known runtimes and distributions use on a Node.
func Usual() []string {
	return []string{
		"/run/containerd/containerd.sock",
		"/run/containerd.sock",
		"/run/crio/crio.sock",
		"/run/crio.sock",
		"/run/cri-dockerd.sock",
		"/run/cri-dockerd/cri-dockerd.sock",
		"/run/k3s/containerd/containerd.sock", // used by k3s and RKE2
		"/run/k0s/containerd.sock",
		"/var/snap/microk8s/common/run/containerd.sock",
	}
}

// KubeletEndpoint returns the container runtime's endpoint from a kubelet's configuration: the configuration file, in
// YAML or JSON, or the response of the kubelet's /configz. The result is empty if the configuration names none.
func KubeletEndpoint(data []byte) (string, error) {
	raw, err := yaml.ToJSON(data)
	if err != nil {
		return "", errors.New("the kubelet's configuration is neither YAML nor JSON")
	}
	type config struct {
		ContainerRuntimeEndpoint string `json:"containerRuntimeEndpoint"`
	}
	var file struct {
		config

		Configz *config `json:"kubeletconfig"`
	}
	if json.Unmarshal(raw, &file) != nil {
		return "", errors.New("the kubelet's configuration has another form")
	}
	if file.Configz != nil {
		return file.Configz.ContainerRuntimeEndpoint, nil
	}
	return file.ContainerRuntimeEndpoint, nil
}

// Mount is a directory of the Node that is mounted in the agent's file system.
type Mount struct{ Node, Agent string }

// Paths converts endpoints of the Node to paths in the agent's file system, each path once. /var/run counts as /run.
// Endpoints outside of all mounts are left out. Without mounts, the agent uses the Node's file system directly.
func Paths(endpoints []string, mounts ...Mount) (out []string) {
	for _, endpoint := range endpoints {
		path := onNode(strings.TrimPrefix(endpoint, "unix://"))
		if len(mounts) > 0 {
			path = below(path, mounts)
		}
		if filepath.IsAbs(path) && !slices.Contains(out, path) {
			out = append(out, path)
		}
	}
	return out
}

func onNode(path string) string {
	path = filepath.Clean(path)
	if rest, found := strings.CutPrefix(path, "/var/run"); found && (rest == "" || rest[0] == '/') {
		return "/run" + rest
	}
	return path
}

func below(path string, mounts []Mount) string {
	for _, m := range mounts {
		if rest, found := strings.CutPrefix(path, onNode(m.Node)+"/"); found {
			return filepath.Join(m.Agent, rest)
		}
	}
	return ""
}

// findTimeout is the timeout for a runtime to return its name.
const findTimeout = 5 * time.Second

// Found is a runtime that has responded.
type Found struct {
	*Runtime
	Version
}

// Find asks for a runtime at each of the socket paths, and returns a reason for each path where no runtime responds.
// The caller must close the returned runtimes.
func Find(ctx context.Context, paths []string) (found []Found, missing reason.List) {
	for _, path := range paths {
		runtime, err := New(path)
		if err != nil {
			missing.Add(InvalidEndpoint, err)
			continue
		}
		version, err := ask(ctx, runtime)
		if err != nil {
			runtime.Close()
			missing.Add(NoRuntime, silent(path, err))
			continue
		}
		found = append(found, Found{Runtime: runtime, Version: version})
	}
	return found, missing
}

// silent returns the reason for a socket at which no runtime has returned its name.
func silent(path string, err error) error {
	if len(reason.From(err)) > 0 {
		return err
	}
	return reason.Reason{Code: NoRuntime, Path: path, Detail: reason.Shorten(err.Error(), 256), Remedy: "see whether the container runtime runs"}.With(err)
}

func ask(ctx context.Context, runtime *Runtime) (Version, error) {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	return runtime.Version(ctx)
}
