// Package controlplanetest answers the question: how does a test package get a real control plane cheaply? An [Env]
// starts one control plane for all tests of a package, in a temporary directory, when the first test asks for the
// control plane. Every test works in its own namespace:
//
//	var env = controlplanetest.New(controlplane.Options{Nodes: 3})
//
//	func TestMain(m *testing.M) { os.Exit(env.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		cp, namespace := env.Start(t), env.Namespace(t)
//		...
//	}
//
// A package whose tests do not change cluster-wide objects uses [NewShared] instead of [New]: if the environment
// variable in [SharedEnv] names a running control plane, the package shares this control plane with other packages.
package controlplanetest

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/workloadkit/workloadkit/testing/controlplane"
)

// KeepEnv is an environment variable that, if set, keeps the directory of the control plane with its logs.
const KeepEnv = "WORKLOADKIT_KEEP"

// SharedEnv is an environment variable with the directory of a running control plane, which packages with [NewShared]
// share. "controlplane run" sets the variable for its command.
const SharedEnv = "WORKLOADKIT_CONTROLPLANE"

const startTimeout = 15 * time.Minute

// Env is the control plane shared by the tests of a package. An Env is safe for concurrent use.
type Env struct {
	opts   controlplane.Options
	shared bool
	once   sync.Once
	cp     *controlplane.ControlPlane
	dir    string
	err    error
}

// New returns an environment for a control plane with the options. If Dir is empty, a temporary directory is used; an
// audit log whose path has no directory is written there, too.
func New(opts controlplane.Options) *Env { return &Env{opts: opts} }

// NewShared is like New, for tests that can share a control plane with tests of other packages running at the same
// time. The tests must work in their own namespaces ([Env.Namespace]) and must not change objects of other tests:
//
//   - a webhook configuration selects only namespaces of the test, and has a unique name;
//   - a CRD that other packages also install is installed unchanged;
//   - a controller acts only on a namespace of the test, or on a kind that no other package uses;
//   - cluster-wide objects have unique names, and are deleted when the test ends;
//   - no test depends on the load of the Nodes, or on their number: there may be more Nodes than requested.
func NewShared(opts controlplane.Options) *Env { return &Env{opts: opts, shared: true} }

// Main runs the tests, stops the control plane if one was started, and returns the exit code.
func (e *Env) Main(m *testing.M) int {
	code := m.Run()
	if err := e.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Start returns the running control plane, which the first call starts. If the flag -short is set, Start skips the
// test.
func (e *Env) Start(t testing.TB) *controlplane.ControlPlane {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a control plane")
	}
	e.once.Do(e.start)
	if e.err != nil {
		t.Fatal(e.err)
	}
	return e.cp
}

func (e *Env) start() {
	opts := e.opts
	// The very first start builds the binaries.
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	if dir := os.Getenv(SharedEnv); e.shared && dir != "" {
		opts.Dir = dir
		if e.cp, e.err = controlplane.Join(ctx, opts); e.err != nil {
			e.err = fmt.Errorf("%s: %w", SharedEnv, e.err)
		}
		return
	}
	if opts.Dir == "" {
		if e.dir, e.err = os.MkdirTemp("", "controlplane-"); e.err != nil {
			return
		}
		opts.Dir = e.dir
	}
	if opts.AuditLog != "" && filepath.Base(opts.AuditLog) == opts.AuditLog {
		opts.AuditLog = filepath.Join(opts.Dir, opts.AuditLog)
	}
	if opts.Progress == nil {
		opts.Progress = os.Stderr
	}
	e.cp, e.err = controlplane.Start(ctx, opts)
}

func (e *Env) stop() error {
	var err error
	if e.cp != nil {
		err = e.cp.Stop(context.Background())
	}
	switch {
	case e.dir == "":
	case os.Getenv(KeepEnv) != "":
		fmt.Fprintln(os.Stderr, "kept", e.dir)
	default:
		if removeErr := os.RemoveAll(e.dir); err == nil {
			err = removeErr
		}
	}
	if err != nil {
		return fmt.Errorf("stop the control plane of the tests: %w", err)
	}
	return nil
}

// Namespace creates a namespace, waits until Pods can be created in it, and deletes the namespace when the test ends.
func (e *Env) Namespace(t testing.TB) string {
	t.Helper()
	client, err := kubernetes.NewForConfig(e.Start(t).Config())
	if err != nil {
		t.Fatal(err)
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "test-"}}
	namespace, err = client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("create a namespace: %v", err)
	}
	t.Cleanup(func() {
		// The test has ended, so the context of the test is cancelled.
		err := client.CoreV1().Namespaces().Delete(context.WithoutCancel(t.Context()), namespace.Name, metav1.DeleteOptions{})
		if err != nil {
			t.Errorf("delete namespace %s: %v", namespace.Name, err)
		}
	})
	Eventually(t, 30*time.Second, func(ctx context.Context) error {
		_, err := client.CoreV1().ServiceAccounts(namespace.Name).Get(ctx, "default", metav1.GetOptions{})
		return err
	})
	return namespace.Name
}

// Eventually polls until check returns nil; after the time limit, the test fails with the last error. The polls slow
// down to 5 per second, because many fast polls at the same time would slow the machine.
func Eventually(t testing.TB, within time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	pause := 20 * time.Millisecond
	timer := time.NewTimer(pause)
	defer timer.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		// After a timeout, the error of the last check is kept, because the error says more than the timeout.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", within, last)
		case <-timer.C:
			pause = min(pause*5/4, 200*time.Millisecond)
			timer.Reset(pause)
		}
	}
}

// Ready returns nil if a manager whose probes listen at the address (host and port) is ready, and otherwise says why
// not. Ready is for [Eventually].
func Ready(ctx context.Context, probes string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+probes+"/readyz", nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the manager is not ready: %s", answer.Status)
	}
	return nil
}
