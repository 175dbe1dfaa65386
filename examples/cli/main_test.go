package cli_test

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/cli"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var env = controlplanetest.NewShared(controlplane.Options{Nodes: 3})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const minute = time.Minute

// fatal is the panic value with which a kubectl command ends in a test instead of ending the process.
type fatal struct {
	message string
	code    int
}

// answer is the output and the exit code of a command line.
type answer struct {
	out, errors string
	code        int
}

// kruise runs a command line in the test's own process.
func kruise(ctx context.Context, stdin string, args ...string) (a answer) {
	streams, in, out, errOut := genericiooptions.NewTestIOStreams()
	in.WriteString(stdin)
	cmdutil.BehaviorOnFatal(func(message string, code int) { panic(fatal{message, code}) })
	defer cmdutil.DefaultBehaviorOnFatal()
	defer func() {
		if end, ended := recover().(fatal); ended {
			fmt.Fprintln(errOut, end.message)
			a.code = end.code
		}
		a.out, a.errors = out.String(), errOut.String()
	}()
	root, err := cli.NewCommand(genericclioptions.NewConfigFlags(false), streams, clock.RealClock{})
	if err != nil {
		panic(err)
	}
	root.SetArgs(args)
	a.code = cli.Execute(ctx, root)
	return a
}

// cluster is a test's client for a control plane, with the test's namespace.
type cluster struct {
	client.WithWatch
	t         testing.TB
	cp        *controlplane.ControlPlane
	namespace string
}

// start returns a client for a new namespace on a control plane.
func start(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	return &cluster{WithWatch: controllertest.Client(t, cp), t: t, cp: cp, namespace: env.Namespace(t)}
}

// manage runs the controllers of the named kinds, for the namespace.
func (c *cluster) manage(names ...string) (stop func()) {
	c.t.Helper()
	rows := slices.DeleteFunc(kinds.All(), func(k kind.Row) bool { return !slices.Contains(names, k.Kind.Kind) })
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	kind.AddFlags(rows, flags)
	if flags.Lookup("nodeimage-creation-delay") != nil {
		if err := flags.Parse([]string{"--nodeimage-creation-delay=0s"}); err != nil {
			c.t.Fatal(err)
		}
	}
	gates := apps.ResolveGates(map[apps.Gate]bool{apps.GateImagePullJob: true, apps.GatePodUnavailableBudgetUpdate: true})
	return controllertest.Manager(c.t, c.cp, manager.Options{Namespace: c.namespace, Kinds: rows, Loops: []kinds.Loop{}, Gates: gates})
}

// do runs a command line in the namespace.
func (c *cluster) do(args ...string) answer {
	c.t.Helper()
	return kruise(c.t.Context(), "", slices.Concat([]string{"--kubeconfig", c.cp.Kubeconfig(), "-n", c.namespace}, args)...)
}

// want runs a command line that must succeed, and returns its output.
func (c *cluster) want(args ...string) string {
	c.t.Helper()
	a := c.do(args...)
	if a.code != 0 {
		c.t.Fatalf("%s: exit code %d\n%s%s", strings.Join(args, " "), a.code, a.out, a.errors)
	}
	return a.out
}

// refused runs a command line that must fail with a code and a text.
func (c *cluster) refused(code int, text string, args ...string) answer {
	c.t.Helper()
	a := c.do(args...)
	if a.code != code || !strings.Contains(a.out+a.errors, text) {
		c.t.Errorf("%s: exit code %d, want %d with %q\n%s%s", strings.Join(args, " "), a.code, code, text, a.out, a.errors)
	}
	return a
}

// apply creates objects from manifests without a namespace.
func (c *cluster) apply(manifests string) {
	c.t.Helper()
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		if err := c.Create(c.t.Context(), c.decode(document)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// decode reads a manifest without a namespace.
func (c *cluster) decode(document string) *unstructured.Unstructured {
	c.t.Helper()
	u := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
		c.t.Fatalf("%v in\n%s", err, document)
	}
	u.SetNamespace(c.namespace)
	return u
}

// object reads an object, for example object("apps.kruise.io/v1beta1", "CloneSet", "web").
func (c *cluster) object(version, kind, name string) *unstructured.Unstructured {
	c.t.Helper()
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, u); err != nil {
		c.t.Fatal(err)
	}
	return u
}

// eventually waits until a command line prints a text.
func (c *cluster) eventually(text string, args ...string) (a answer) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(context.Context) error {
		if a = c.do(args...); !strings.Contains(a.out+a.errors, text) {
			return fmt.Errorf("%s: no %q in\n%s%s", strings.Join(args, " "), text, a.out, a.errors)
		}
		return nil
	})
	return a
}
