package install_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const (
	root   = "../.." // of the repository
	config = root + "/examples/config"
	chart  = root + "/examples/charts/kruise"
	// namespace is the manager's namespace.
	namespace = "kruise-system"
)

// env is a control plane with the admission plugin OwnerReferencesPermissionEnforcement, which some distributions
// enable. With the plugin, a user who creates an object that blocks the deletion of its owner must have the right to
// update the owner's finalizers.
var env = controlplanetest.New(controlplane.Options{
	Nodes: 5, AuditLog: "audit.log",
	APIServerFlags: []string{"--enable-admission-plugins=OwnerReferencesPermissionEnforcement"},
})

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard()) // for logs outside the manager; otherwise controller-runtime complains at length
	// Only kubectl and helm read these files. Because the test reads the files here, too, go test does not use a
	// cached result after a change of the files.
	for _, dir := range []string{config, chart} {
		if err := filepath.WalkDir(dir, func(_ string, _ fs.DirEntry, err error) error { return err }); err != nil {
			panic(err)
		}
	}
	os.Exit(env.Main(m))
}

// run runs a command at the root of the repository, and returns its output. The error contains the output to stderr.
func run(ctx context.Context, environment []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	var stdout, stderr bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = root, &stdout, &stderr
	cmd.Env = append(os.Environ(), environment...)
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w\n%s", filepath.Base(name), strings.Join(args, " "), err, stderr.String())
	}
	return stdout.String(), nil
}

func must(t testing.TB) func(string, error) string {
	t.Helper()
	return func(out string, err error) string {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
}

// kubectl runs the kubectl of the control plane's version. If kubectl is missing, it is built first.
func kubectl(t testing.TB, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs kubectl")
	}
	path, err := controlplane.Binary(t.Context(), "kubectl", controlplane.Options{Progress: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	return run(t.Context(), nil, path, args...)
}

// helmPath returns the path of the pinned helm. If helm is missing, it is built first.
var helmPath = sync.OnceValues(func() (string, error) {
	path, err := run(context.Background(), []string{"GOWORK=off"}, "go", "tool", "-modfile=tools/go.mod", "-n", "helm")
	return strings.TrimSpace(path), err
})

// helm runs the pinned helm without any user configuration.
func helm(t testing.TB, args ...string) (string, error) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs helm")
	}
	path, err := helmPath()
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	// The context does not end with the test, because cleanup functions remove Helm releases after the end of the
	// test.
	return run(context.WithoutCancel(t.Context()), []string{"HELM_CACHE_HOME=" + home, "HELM_CONFIG_HOME=" + home, "HELM_DATA_HOME=" + home}, path, args...)
}

// template renders the chart with values such as "manager.replicas=3".
func template(t testing.TB, values ...string) (string, error) {
	t.Helper()
	args := []string{"template", "kruise", "examples/charts/kruise"}
	for _, value := range values {
		args = append(args, "--set-json", value)
	}
	return helm(t, args...)
}

// kustomize renders the kustomization.
func kustomize(t testing.TB) string {
	t.Helper()
	return must(t)(kubectl(t, "kustomize", "examples/config/default"))
}

// key returns a text that identifies an object.
func key(obj *unstructured.Unstructured) string {
	return strings.Join([]string{obj.GetAPIVersion(), obj.GetKind(), obj.GetNamespace(), obj.GetName()}, " ")
}

// parse reads manifests, and fails the test if an object occurs twice.
func parse(t testing.TB, manifests string) map[string]*unstructured.Unstructured {
	t.Helper()
	out := map[string]*unstructured.Unstructured{}
	decoder := kyaml.NewYAMLOrJSONDecoder(strings.NewReader(manifests), 4096)
	for {
		var raw runtime.RawExtension
		err := decoder.Decode(&raw)
		if errors.Is(err, io.EOF) {
			return out
		}
		if err == nil && (len(raw.Raw) == 0 || string(raw.Raw) == "null") {
			continue
		}
		obj := &unstructured.Unstructured{}
		if err == nil {
			err = obj.UnmarshalJSON(raw.Raw)
		}
		if err != nil {
			t.Fatal(err)
		}
		if out[key(obj)] != nil {
			t.Fatalf("%s comes twice", key(obj))
		}
		out[key(obj)] = obj
	}
}

// find returns the only object of a kind, with the given name unless name is empty.
func find(t testing.TB, objects map[string]*unstructured.Unstructured, kind, name string) *unstructured.Unstructured {
	t.Helper()
	var found *unstructured.Unstructured
	for _, obj := range objects {
		if obj.GetKind() != kind || (name != "" && obj.GetName() != name) {
			continue
		}
		if found != nil {
			t.Fatalf("several objects of kind %s", kind)
		}
		found = obj
	}
	if found == nil {
		t.Fatalf("no %s %s", kind, name)
	}
	return found
}

// as converts an object to a Go type.
func as[T any](t testing.TB, obj *unstructured.Unstructured) *T {
	t.Helper()
	out := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(obj.Object, out, true); err != nil {
		t.Fatalf("%s: %v", key(obj), err)
	}
	return out
}
