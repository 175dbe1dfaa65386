package realnode

import (
	"context"
	_ "embed"
	"io"
	"path/filepath"

	"github.com/workloadkit/workloadkit/testing/internal/gobuild"
	"github.com/workloadkit/workloadkit/testing/internal/progress"
)

const kubernetesVersion = "v1.36.3"

//go:embed binaries.txtar
var binariesModules string

// binaries returns the programs that a Node needs. The kubelet is built in a separate module, so that the build uses
// the same versions and the same build cache as the control plane's binaries.
func binaries() gobuild.Set {
	const p = " -X k8s.io/component-base/version."
	const versions = p + "gitVersion=" + kubernetesVersion + p + "gitMajor=1" + p + "gitMinor=36"
	const containerd = "github.com/containerd/containerd/v2/cmd/"
	const cni = "github.com/containernetworking/plugins/plugins/"
	const plain = "no_btrfs,no_zfs,no_devmapper"
	set := gobuild.Set{Modules: binariesModules, Programs: []gobuild.Program{
		{Name: "nodeinit", Module: "runtime", Package: "./nodeinit"},
		{Name: "app", Module: "runtime", Package: "./app"},
		{Name: "kubelet", Module: "kubelet", Package: "k8s.io/kubernetes/cmd/kubelet", LDFlags: versions},
		{Name: "containerd", Module: "runtime", Package: containerd + "containerd", Tags: plain},
		{Name: "containerd-shim-runc-v2", Module: "runtime", Package: containerd + "containerd-shim-runc-v2", Tags: plain},
		{Name: "runc", Module: "runtime", Package: "github.com/opencontainers/runc", Tags: "seccomp", Cgo: true},
		{Name: "bridge", Module: "runtime", Package: cni + "main/bridge"},
		{Name: "loopback", Module: "runtime", Package: cni + "main/loopback"},
		{Name: "host-local", Module: "runtime", Package: cni + "ipam/host-local"},
	}}
	for i := range set.Programs {
		set.Programs[i].LDFlags = "-s -w" + set.Programs[i].LDFlags
	}
	return set
}

// buildBinaries returns the directory of the binaries and builds missing binaries.
func buildBinaries(ctx context.Context, dir string, out io.Writer) (string, error) {
	set := binaries()
	var err error
	if dir == "" {
		dir, err = set.CacheDir(ctx, "node")
	} else {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return "", err
	}
	names := make([]string, len(set.Programs))
	for i, p := range set.Programs {
		names[i] = p.Name
	}
	return dir, set.Build(ctx, dir, names, progress.New(out))
}
