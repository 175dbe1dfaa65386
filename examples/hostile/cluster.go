package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"syscall"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/child"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

const (
	quiet    = "quiet"
	villains = "hostile"
)

// cluster is a control plane with a manager that serves webhooks.
type cluster struct {
	client.WithWatch

	dir     string
	plane   *controlplane.ControlPlane
	manager *child.Process
	port    int
	health  string
}

func start(ctx context.Context, o options) (*cluster, error) {
	dir, err := os.MkdirTemp("", "hostile-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	c := &cluster{dir: dir}
	if c.plane, err = controlplane.Start(ctx, controlplane.Options{Dir: filepath.Join(dir, "controlplane"), Nodes: 10, Progress: os.Stderr}); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	if err := c.prepare(ctx, o); err != nil {
		c.stop(context.WithoutCancel(ctx))
		return nil, err
	}
	return c, nil
}

func (c *cluster) prepare(ctx context.Context, o options) (err error) {
	if c.WithWatch, err = manager.NewClient(c.plane.Config()); err != nil {
		return err
	}
	for _, install := range []func(context.Context, client.Client) error{config.InstallCRDs, config.InstallWebhooks} {
		if err := install(ctx, c); err != nil {
			return err
		}
	}
	for _, name := range []string{quiet, villains} {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return c.run(ctx, o.manager)
}

// run starts the manager and waits until its webhooks serve.
func (c *cluster) run(ctx context.Context, binary string) error {
	var ports [2]int
	for i := range ports {
		var err error
		if ports[i], err = child.FreePort(ctx, "127.0.0.1"); err != nil {
			return err
		}
	}
	c.port, c.health = ports[0], fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1])
	log, err := os.Create(filepath.Join(c.dir, "manager.log"))
	if err != nil {
		return fmt.Errorf("creating the manager's log: %w", err)
	}
	defer func() { _ = log.Close() }()
	//nolint:noctx // stop ends the whole process group; a context would kill its leader alone.
	cmd := exec.Command(binary, "--kubeconfig", c.plane.Kubeconfig(), "--metrics-addr=0", "--enable-pprof=false",
		fmt.Sprintf("--health-probe-addr=127.0.0.1:%d", ports[1]))
	cmd.Env = append(os.Environ(), "WEBHOOK_HOST=localhost", fmt.Sprintf("WEBHOOK_PORT=%d", c.port))
	cmd.Stdout, cmd.Stderr = log, log
	if c.manager, err = child.Start(cmd); err != nil {
		return fmt.Errorf("starting the manager: %w", err)
	}
	err = wait.PollUntilContextTimeout(ctx, 200*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		if c.manager.Ended() {
			return false, fmt.Errorf("it has ended: %s", c.manager.State())
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, c.health, nil)
		if err != nil {
			return false, err
		}
		answer, err := http.DefaultClient.Do(request)
		if err != nil {
			return false, nil //nolint:nilerr // It does not listen yet.
		}
		return answer.StatusCode == http.StatusOK, answer.Body.Close()
	})
	if err != nil {
		return fmt.Errorf("waiting for the manager's webhooks: %w; end of its log:\n%s", err, child.EndOfLog(log.Name()))
	}
	return nil
}

func (c *cluster) stop(ctx context.Context) {
	if c.manager != nil {
		c.manager.Stop(syscall.SIGTERM, 10*time.Second)
	}
	if err := errors.Join(c.plane.Stop(ctx), os.RemoveAll(c.dir)); err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
	}
}

// memory is the most that the manager has had resident, in MiB.
func (c *cluster) memory() (float64, error) {
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.manager.ID()))
	if err != nil {
		return 0, fmt.Errorf("the manager's memory: %w", err)
	}
	_, rest, _ := bytes.Cut(raw, []byte("VmHWM:"))
	fields := bytes.Fields(rest)
	if len(fields) == 0 {
		return 0, errors.New("the manager's memory is not in /proc")
	}
	kibibytes, err := strconv.ParseFloat(string(fields[0]), 64)
	return kibibytes / 1024, err
}

// asEditor is the configuration of a user with the role edit in one namespace.
func (c *cluster) asEditor(ctx context.Context) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: villains, Name: "villain"}}
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: villains, Name: account.Name}}
	// The role edit extends to these kinds where the manifests of examples/config/rbac are installed; here they have a role of their own.
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: villains, Name: "clonesets"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"apps.kruise.io"}, Resources: []string{"clonesets", "statefulsets", "daemonsets"}, Verbs: []string{"*"}}},
	}
	for _, object := range []client.Object{
		account, role,
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: villains, Name: "edit"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: villains, Name: "clonesets"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		},
	} {
		if err := c.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	out := rest.AnonymousClientConfig(c.plane.Config())
	out.BearerToken, out.QPS = token.Status.Token, -1
	return out, nil
}
