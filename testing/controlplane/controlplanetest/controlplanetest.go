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
//
// A package whose tests leave alone what belongs to the whole cluster takes [NewShared] instead of [New]: where the environment names a control
// plane that runs already, it uses that, together with others.
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

// SharedEnv names an environment variable with the directory of a running control plane that packages with [NewShared] use together.
// "controlplane run" sets it for the command that it runs.
const SharedEnv = "WORKLOADKIT_CONTROLPLANE"

const startTimeout = 15 * time.Minute

// Env is the control plane that the tests of one package share. It is safe for concurrent use.
type Env struct {
	opts   controlplane.Options
	shared bool
	once   sync.Once
	cp     *controlplane.ControlPlane
	dir    string
	err    error
}

// New returns an environment that will start a control plane with these options. An empty Dir is a temporary directory; an
// audit log without a directory lies in it too.
func New(opts controlplane.Options) *Env { return &Env{opts: opts} }

// NewShared is New for tests that may share a control plane with those of other packages, which run at the same time. They must work in
// namespaces of their own ([Env.Namespace]) and leave alone what belongs to others:
//
//   - a webhook configuration matches namespaces of the test alone, and bears a name of its own;
//   - a CRD that other packages install too stays as they all install it;
//   - a controller acts on a namespace of the test, or on a kind that no other package has objects of;
//   - other objects without a namespace have names of their own, and are deleted when the test ends;
//   - nothing depends on how full the Nodes are, or on how many there are: they may be more than was asked for.
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
	// The first start of all builds the binaries.
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

// Eventually polls until check returns nil, and fails the test with the last error when that takes too long. It asks less and less often,
// at least 5 times a second: what many tests ask side by side keeps the machine from what they wait for.
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
		// That the time is up says less than what was wrong until then.
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
