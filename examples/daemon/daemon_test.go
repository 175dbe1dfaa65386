package daemon_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/daemon"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/imagestore"
	"github.com/workloadkit/workloadkit/testing/fakecri/podview"
)

// The package has its own control plane, because the tests install webhooks for all Pods, and create and delete CRDs.
var env = controlplanetest.New(controlplane.Options{Nodes: 1, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const within = time.Minute

// node is a simulated Node with a simulated container runtime.
type node struct {
	client.WithWatch
	t         *testing.T
	cp        *controlplane.ControlPlane
	namespace string
	name      string
	faults    fakecri.Plan
	runtime   *fakecri.Server
	images    *imagestore.Store
	socket    string
}

func newNode(t *testing.T) *node {
	t.Helper()
	cp := env.Start(t)
	n := &node{t: t, cp: cp, WithWatch: newClient(t, cp), namespace: env.Namespace(t), images: imagestore.New(nil), socket: filepath.Join(t.TempDir(), "s")}
	var nodes corev1.NodeList
	if err := n.List(t.Context(), &nodes); err != nil || len(nodes.Items) == 0 {
		t.Fatal(err, len(nodes.Items))
	}
	n.name = nodes.Items[0].Name
	clientset, err := kubernetes.NewForConfig(cp.Config())
	if err != nil {
		t.Fatal(err)
	}
	view, err := podview.Start(t.Context(), clientset)
	if err != nil {
		t.Fatal(err)
	}
	n.runtime, err = fakecri.Start(fakecri.Options{Machine: view.Node(n.name), Name: podview.Runtime, Socket: n.socket, Faults: &n.faults, Images: n.images})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.runtime.Stop)
	return n
}

// newClient returns a client whose scheme includes CustomResourceDefinitions, and installs missing CRDs.
func newClient(t *testing.T, cp *controlplane.ControlPlane) client.WithWatch {
	t.Helper()
	c := controllertest.Client(t, cp)
	if err := apiextensionsv1.AddToScheme(c.Scheme()); err != nil {
		t.Fatal(err)
	}
	return c
}

// agent runs the agent of the Node until the test ends.
func (n *node) agent() *daemon.Daemon {
	n.t.Helper()
	return n.run(rest.CopyConfig(n.cp.Config()))
}

// run runs the agent of the Node with the credentials in config until the test ends.
func (n *node) run(config *rest.Config) *daemon.Daemon {
	n.t.Helper()
	config.UserAgent = "agent-" + n.namespace
	d, err := daemon.New(config, daemon.Options{
		Node: n.name, Sockets: daemon.Sockets{File: n.socket}, Registry: prometheus.NewRegistry(),
		Images: daemon.Images{Bounds: imagepull.Bounds{Pulls: 2, Registries: imagepull.Registries{"*"}}},
	})
	if err != nil {
		n.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(n.t.Context())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	n.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			n.t.Error(err)
		}
	})
	return d
}

func (n *node) pod(name string, containers ...string) *corev1.Pod {
	n.t.Helper()
	return n.podOn(name, n.name, containers...)
}

// podOn returns a Pod that is ready on a Node.
func (n *node) podOn(name, node string, containers ...string) *corev1.Pod {
	n.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, TerminationGracePeriodSeconds: ptr.To(int64(0))},
	}
	for _, c := range containers {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{Name: c, Image: c + ":1"})
	}
	if err := n.Create(n.t.Context(), pod); err != nil {
		n.t.Fatal(err)
	}
	controlplanetest.Eventually(n.t, within, func(ctx context.Context) error {
		if err := n.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return err
		}
		if pod.Status.Phase != corev1.PodRunning || slices.ContainsFunc(pod.Status.ContainerStatuses, func(s corev1.ContainerStatus) bool { return !s.Ready }) {
			return errors.New("the Pod is not ready")
		}
		return nil
	})
	return pod
}

func (n *node) request(name, pod string, strategy *v1beta1.ContainerRecreateRequestStrategy, containers ...string) *v1beta1.ContainerRecreateRequest {
	n.t.Helper()
	r := &v1beta1.ContainerRecreateRequest{
		ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name},
		Spec:       v1beta1.ContainerRecreateRequestSpec{PodName: pod, Strategy: strategy},
	}
	for _, c := range containers {
		r.Spec.Containers = append(r.Spec.Containers, v1beta1.ContainerRecreateRequestContainer{Name: c})
	}
	if err := n.Create(n.t.Context(), r); err != nil {
		n.t.Fatal(err)
	}
	return r
}

// completed waits for the end of a request.
func (n *node) completed(r *v1beta1.ContainerRecreateRequest) v1beta1.ContainerRecreateRequestStatus {
	n.t.Helper()
	controlplanetest.Eventually(n.t, within, func(ctx context.Context) error {
		if err := n.Get(ctx, client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		if r.Status.Phase != v1beta1.ContainerRecreateRequestCompleted {
			return fmt.Errorf("status %+v", r.Status)
		}
		return nil
	})
	return r.Status
}

// restarts returns how often each container has restarted.
func (n *node) restarts(pod *corev1.Pod) string {
	n.t.Helper()
	if err := n.Get(n.t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		n.t.Fatal(err)
	}
	var out []string
	for _, s := range pod.Status.ContainerStatuses {
		out = append(out, fmt.Sprint(s.Name, " ", s.RestartCount))
	}
	slices.Sort(out)
	return strings.Join(out, ", ")
}

func health(d *daemon.Daemon) (int, string) {
	answer := httptest.NewRecorder()
	d.Health().ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/healthz", nil))
	return answer.Code, answer.Body.String()
}

// TestRestart: each ContainerRecreateRequest restarts only the containers that the request names, one request after
// the other, with few writes and an event for the Pod.
func TestRestart(t *testing.T) {
	n := newNode(t)
	controllertest.Serve(t, n.cp, n, manager.Options{})
	d := n.agent()
	pod := n.pod("web", "app", "log", "proxy")
	since := controllertest.End(t, n.cp.AuditLog())
	first := n.request("first", "web", &v1beta1.ContainerRecreateRequestStrategy{OrderedRecreate: true}, "app", "log")
	second := n.request("second", "web", nil, "app")
	status := n.completed(first)
	want := []v1beta1.ContainerRecreateRequestContainerRecreateState{
		{Name: "app", Phase: v1beta1.ContainerRecreateRequestSucceeded, IsKilled: true}, {Name: "log", Phase: v1beta1.ContainerRecreateRequestSucceeded, IsKilled: true},
	}
	if diff := cmp.Diff(want, status.ContainerRecreateStates); diff != "" || status.Message != "" || status.CompletionTime == nil {
		t.Errorf("%+v (-want +got):\n%s", status, diff)
	}
	n.completed(second)
	// The second request was created before the restart for the first request, so the restart satisfies both
	// requests.
	if got := n.restarts(pod); got != "app 1, log 1, proxy 0" {
		t.Errorf("restarts %s", got)
	}
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		var events corev1.EventList
		if err := n.List(ctx, &events, client.InNamespace(n.namespace)); err != nil {
			return err
		}
		var told []string
		for _, e := range events.Items {
			if e.Reason == "Killing" {
				told = append(told, e.InvolvedObject.FieldPath+" "+e.Source.Host)
			}
		}
		slices.Sort(told)
		if diff := cmp.Diff([]string{"spec.containers{app} " + n.name, "spec.containers{log} " + n.name}, told); diff != "" {
			return errors.New(diff)
		}
		return nil
	})
	requests, _ := controllertest.Requests(t, n.cp.AuditLog(), since, "agent-"+n.namespace)
	tally := controllertest.Tally(requests, n.namespace)
	t.Log(tally)
	if writes := tally["patch containerrecreaterequests/status"]; writes > 8 {
		t.Errorf("%d writes for two requests: %v", writes, tally)
	}
	if code, text := health(d); code != http.StatusOK {
		t.Errorf("health %d: %s", code, text)
	}
}

// TestMissing: an agent waits for its runtime and for the CRD, reports both in Waiting, and continues when both are
// available.
func TestMissing(t *testing.T) {
	n := newNode(t)
	n.runtime.Down()
	controlplanetest.Eventually(t, within, n.removeCRD)
	d := n.agent()
	wait := func(want ...string) {
		t.Helper()
		controlplanetest.Eventually(t, within, func(context.Context) error {
			_, text := health(d)
			for _, one := range want {
				if !strings.Contains(text, one) {
					return fmt.Errorf("health %q, want %s", text, want)
				}
			}
			return nil
		})
	}
	wait("NoSocket", "KindAwaited")
	if err := n.runtime.Up(); err != nil {
		t.Fatal(err)
	}
	controllertest.Client(t, n.cp) // installs the CRD again
	wait("ok")
	controllertest.Serve(t, n.cp, n, manager.Options{})
	pod := n.pod("web", "app")
	n.completed(n.request("r", "web", nil, "app"))
	if got := n.restarts(pod); got != "app 1" {
		t.Errorf("restarts %s", got)
	}
	controlplanetest.Eventually(t, within, n.removeCRD)
	wait("KindAwaited")
}
