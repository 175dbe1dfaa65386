package faultnodes_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/testing/fakecri"
	"github.com/workloadkit/workloadkit/testing/fakecri/faultnodes"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// fixture is a Pod on a Node, with access to its state in CRI and to its reported state.
type fixture struct {
	t       *testing.T
	user    client.Client
	nodes   *faultapi.Nodes
	lock    sync.Mutex
	pod     *corev1.Pod
	runtime runtimeapi.RuntimeServiceClient
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	api, err := faultapi.New(clientgoscheme.Scheme, func() time.Time { return time.Unix(100, 0) })
	if err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, user: api.Client(nil, nil), nodes: api.Nodes(), pod: &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "p", Namespace: "ns", Labels: map[string]string{"color": "blue"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "app:v1", Env: []corev1.EnvVar{
			{Name: "COLOR", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['color']"}}},
			{Name: "PLAIN", Value: "p"},
		}}}},
	}}
	f.must(f.user.Create(t.Context(), f.pod))
	f.nodes.Schedule(f.pod, "node-0")
	f.observe()
	server, err := fakecri.Start(fakecri.Options{Machine: faultnodes.New(f.nodes, &f.lock, "node-0")})
	f.must(err)
	t.Cleanup(server.Stop)
	conn, err := server.Client()
	f.must(err)
	t.Cleanup(func() { _ = conn.Close() })
	f.runtime = runtimeapi.NewRuntimeServiceClient(conn)
	return f
}

func (f *fixture) must(err error) {
	f.t.Helper()
	if err != nil {
		f.t.Fatal(err)
	}
}

func (f *fixture) observe() { f.nodes.Observe(client.ObjectKeyFromObject(f.pod), f.pod.UID) }

// step calls a function of the kubelet with the lock held.
func (f *fixture) step(act func() bool) {
	f.lock.Lock()
	defer f.lock.Unlock()
	act()
}

func (f *fixture) run()    { f.step(func() bool { return f.nodes.Run(f.pod.UID) }) }
func (f *fixture) report() { f.step(func() bool { return f.nodes.Report(f.pod.UID) }) }

// truth returns the state of the container in the runtime as text: attempt, state, exit code, image and the variable
// COLOR.
func (f *fixture) truth() string {
	f.t.Helper()
	list, err := f.runtime.ListContainers(f.t.Context(), &runtimeapi.ListContainersRequest{})
	f.must(err)
	out := ""
	for _, c := range list.GetContainers() {
		status, err := f.runtime.ContainerStatus(f.t.Context(), &runtimeapi.ContainerStatusRequest{ContainerId: c.GetId()})
		f.must(err)
		out += fmt.Sprint(c.GetMetadata().GetAttempt(), " ", c.GetState(), " ", status.GetStatus().GetExitCode(), " ", c.GetImage().GetUserSpecifiedImage())
		answer, err := f.runtime.ExecSync(f.t.Context(), &runtimeapi.ExecSyncRequest{ContainerId: c.GetId(), Cmd: []string{"env"}})
		if err == nil {
			out += fmt.Sprintf(" %q", answer.GetStdout())
		}
	}
	return out
}

// reported returns the state of the container in the Pod's status as text.
func (f *fixture) reported() string {
	f.t.Helper()
	f.must(f.user.Get(f.t.Context(), client.ObjectKeyFromObject(f.pod), f.pod))
	out := ""
	for i := range f.pod.Status.ContainerStatuses {
		s := &f.pod.Status.ContainerStatuses[i]
		out += fmt.Sprint(s.RestartCount, " running ", s.State.Running != nil)
	}
	return out
}

func (f *fixture) stop() {
	f.t.Helper()
	_, err := f.runtime.StopContainer(f.t.Context(), &runtimeapi.StopContainerRequest{ContainerId: string(f.pod.UID) + "/app/0", Timeout: 30})
	f.must(err)
}

// TestAhead: the runtime shows each change before the kubelet has reported the change, and the start time of an
// instance does not change.
func TestAhead(t *testing.T) {
	f := newFixture(t)
	var got []string
	note := func() { got = append(got, f.truth()+" | "+f.reported()) }
	note()
	f.run()
	note()
	f.report()
	note()
	f.must(f.user.Patch(t.Context(), f.pod, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"color":"red"}}}`))))
	f.step(func() bool { f.observe(); return true })
	note()
	f.stop()
	note()
	f.stop()
	f.run()
	note()
	f.report()
	note()
	f.stop() // the instance does not exist any more
	note()
	want := []string{
		" | ",
		`0 CONTAINER_RUNNING 0 app:v1 "COLOR=blue\nPLAIN=p\n" | `,
		`0 CONTAINER_RUNNING 0 app:v1 "COLOR=blue\nPLAIN=p\n" | 0 running true`,
		`0 CONTAINER_RUNNING 0 app:v1 "COLOR=blue\nPLAIN=p\n" | 0 running true`,
		`0 CONTAINER_EXITED 143 app:v1 | 0 running true`,
		`1 CONTAINER_RUNNING 0 app:v1 "COLOR=red\nPLAIN=p\n" | 0 running true`,
		`1 CONTAINER_RUNNING 0 app:v1 "COLOR=red\nPLAIN=p\n" | 1 running true`,
		`1 CONTAINER_RUNNING 0 app:v1 "COLOR=red\nPLAIN=p\n" | 1 running true`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the runtime and the report (-want +got):\n%s", diff)
	}
}

// TestOtherNodes: a Machine shows only the containers of its own Node.
func TestOtherNodes(t *testing.T) {
	f := newFixture(t)
	f.run()
	for node, want := range map[string]int{"node-0": 1, "node-1": 0} {
		m := faultnodes.New(f.nodes, &f.lock, node)
		if containers, sandboxes := len(m.Containers()), len(m.Sandboxes()); containers != want || sandboxes != want {
			t.Errorf("%s has %d containers and %d sandboxes, want %d", node, containers, sandboxes, want)
		}
	}
}
