package controlplane

import (
	"context"
	_ "embed"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/workloadkit/workloadkit/testing/internal/gobuild"
	"github.com/workloadkit/workloadkit/testing/internal/progress"
)

// BinariesEnv is the environment variable for the directory of binaries, like [Options.Binaries].
const BinariesEnv = "WORKLOADKIT_BINARIES"

const (
	kubernetesVersion = "v1.36.3"
	kubernetesMajor   = "1"
	kubernetesMinor   = "36"
)

//go:embed binaries.txtar
var binariesModule string

// Binaries lists the names that [Binary] accepts.
func Binaries() []string {
	return []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok"}
}

// Binary returns the path of the named binary, and builds the binary if it is missing. Binary uses only the options
// Binaries and Progress. Concurrent calls, even in several processes, build the binary only once.
func Binary(ctx context.Context, name string, opts Options) (string, error) {
	paths, err := buildBinaries(ctx, []string{name}, opts)
	if err != nil {
		return "", err
	}
	return paths[name], nil
}

// buildBinaries returns the paths of the named binaries, and builds missing binaries.
func buildBinaries(ctx context.Context, names []string, opts Options) (map[string]string, error) {
	for _, name := range names {
		if !slices.Contains(Binaries(), name) {
			return nil, fmt.Errorf("no binary %q: there are %s", name, strings.Join(Binaries(), ", "))
		}
	}
	dir, err := binariesDir(ctx, opts)
	if err != nil {
		return nil, err
	}
	paths := map[string]string{}
	for _, name := range names {
		paths[name] = filepath.Join(dir, name)
	}
	return paths, binaries().Build(ctx, dir, names, progress.New(opts.Progress))
}

// binariesDir returns the directory for binaries: from the options or the environment, or in the user's cache.
func binariesDir(ctx context.Context, opts Options) (string, error) {
	if dir := opts.Binaries; dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv(BinariesEnv); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := binaries().CacheDir(ctx, "binaries")
	if err != nil {
		return "", fmt.Errorf("%w (%s names another directory)", err, BinariesEnv)
	}
	return dir, nil
}

func binaries() gobuild.Set {
	set := gobuild.Set{Modules: binariesModule}
	for _, name := range Binaries() {
		set.Programs = append(set.Programs, gobuild.Program{Name: name, Package: packageOf(name), LDFlags: ldflags()})
	}
	return set
}

func ldflags() string {
	const p = " -X k8s.io/component-base/version."
	return "-s -w" + p + "gitVersion=" + kubernetesVersion + p + "gitMajor=" + kubernetesMajor + p + "gitMinor=" + kubernetesMinor
}

func packageOf(name string) string {
	switch name {
	case "etcd":
		return "./etcd"
	case "kwok":
		return "sigs.k8s.io/kwok/cmd/kwok"
	default:
		return "k8s.io/kubernetes/cmd/" + name
	}
}
