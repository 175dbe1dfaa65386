// Package controlplanetest answers the question: how does a test package get a real control plane cheaply? The package starts
// one for all its tests, in a temporary directory, when the first test asks for it, and every test works in a namespace of its
// own:
//
//	var env = controlplanetest.New(controlplane.Options{Nodes: 3})
//
//	func TestMain(m *testing.M) { os.Exit(env.Main(m)) }
//
//	func TestSomething(t *testing.T) {
//		cp, namespace := env.Start(t), env.Namespace(t)
//		...
//	}
package controlplanetest

import (
	"context"
	"fmt"
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

// KeepEnv names an environment variable that, when set, keeps the directory of the control plane with its logs.
const KeepEnv = "WORKLOADKIT_KEEP"

const startTimeout = 15 * time.Minute

// Env is the control plane that the tests of one package share. It is safe for concurrent use.
type Env struct {
	opts controlplane.Options
	once sync.Once
	cp   *controlplane.ControlPlane
	dir  string
	err  error
}

// New returns an environment that will start a control plane with these options. An empty Dir is a temporary directory; an
// audit log without a directory lies in it too.
func New(opts controlplane.Options) *Env { return &Env{opts: opts} }

// Main runs the tests, stops the control plane if one was started, and returns the exit code.
func (e *Env) Main(m *testing.M) int {
	code := m.Run()
	if err := e.stop(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return max(code, 1)
	}
	return code
}

// Start returns the running control plane and starts it when called first. With -short the test is skipped.
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
	// The first start of all builds the binaries.
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
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

// Namespace creates a namespace that Pods can be created in at once, and deletes it when the test ends.
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
		// The context of the test has ended by now.
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

// Eventually polls until check returns nil, and fails the test with the last error when that takes too long.
func Eventually(t testing.TB, within time.Duration, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	var last error
	for {
		err := check(ctx)
		if err == nil {
			return
		}
		// That the time is up says less than what was wrong until then.
		if last == nil || ctx.Err() == nil {
			last = err
		}
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %v", within, last)
		case <-tick.C:
		}
	}
}
