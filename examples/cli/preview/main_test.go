package preview_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/clock"

	"github.com/workloadkit/workloadkit/examples/cli"
	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

var env = controlplanetest.New(controlplane.Options{Nodes: 4})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

// commands runs command lines one after the other, because kubectl's behavior on errors is a package variable.
type commands struct{ mu sync.Mutex }

// run runs a command line, and returns its output and exit code.
func (c *commands) run(ctx context.Context, args ...string) (out string, code int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var printed, errors bytes.Buffer
	type fatal struct{ message string }
	cmdutil.BehaviorOnFatal(func(message string, _ int) { panic(fatal{message}) })
	defer cmdutil.DefaultBehaviorOnFatal()
	defer func() {
		if end, ended := recover().(fatal); ended {
			out, code = out+end.message, 1
		}
	}()
	streams := genericiooptions.IOStreams{In: &bytes.Buffer{}, Out: &printed, ErrOut: &errors}
	root, err := cli.NewCommand(genericclioptions.NewConfigFlags(false), streams, clock.RealClock{})
	if err != nil {
		return err.Error(), 1
	}
	root.SetArgs(args)
	code = cli.Execute(ctx, root)
	return printed.String() + errors.String(), code
}

// preview returns the report about a manifest, and the report as text.
func (c *commands) preview(t testing.TB, cp *controlplane.ControlPlane, namespace string, manifest any, more ...string) (*forecast.Report, string) {
	t.Helper()
	raw, err := json.Marshal(manifest)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "changed.yaml")
	if err := os.WriteFile(file, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	args := append([]string{"--kubeconfig", cp.Kubeconfig(), "-n", namespace, "preview", "-f", file, "-o", "json"}, more...)
	began := time.Now()
	out, code := c.run(t.Context(), args...)
	t.Logf("previewed in %v", time.Since(began).Round(time.Millisecond))
	report := &forecast.Report{}
	if err := json.Unmarshal([]byte(out), report); err != nil || code != 0 {
		t.Fatalf("preview: exit code %d, %v\n%s", code, err, out)
	}
	return report, fmt.Sprint(forecast.Text(report, false))
}
