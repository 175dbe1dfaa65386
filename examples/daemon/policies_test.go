package daemon_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/internal/hostile"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const system = "kruise-system"

// installRights installs the RBAC rules of agents and the admission policies.
func (n *node) installRights() {
	n.t.Helper()
	if err := n.Create(n.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}); client.IgnoreAlreadyExists(err) != nil {
		n.t.Fatal(err)
	}
	if err := config.InstallAgentRights(n.t.Context(), n); err != nil {
		n.t.Fatal(err)
	}
}

// installWebhook is like installRights, but installs the webhook in place of the policies, as needed before
// Kubernetes 1.30.
func (n *node) installWebhook() {
	n.t.Helper()
	n.installRights()
	if err := config.InstallAgentWebhook(n.t.Context(), n); err != nil {
		n.t.Fatal(err)
	}
}

// account returns a configuration with a service account token of the agent. The token is bound to a Pod on the given
// Node; if on is empty, the token is not bound.
func (n *node) account(on string) *rest.Config {
	n.t.Helper()
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To(int64(3600))}}
	if on != "" {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: system, GenerateName: "agent-"},
			Spec: corev1.PodSpec{
				NodeName: on, ServiceAccountName: "kruise-daemon", TerminationGracePeriodSeconds: ptr.To(int64(0)),
				Containers: []corev1.Container{{Name: "daemon", Image: "daemon:1"}},
			},
		}
		if err := n.Create(n.t.Context(), pod); err != nil {
			n.t.Fatal(err)
		}
		request.Spec.BoundObjectRef = &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: pod.Name, UID: pod.UID}
	}
	clientset, err := kubernetes.NewForConfig(n.cp.Config())
	if err != nil {
		n.t.Fatal(err)
	}
	token, err := clientset.CoreV1().ServiceAccounts(system).CreateToken(n.t.Context(), "kruise-daemon", request, metav1.CreateOptions{})
	if err != nil {
		n.t.Fatal(err)
	}
	out := rest.AnonymousClientConfig(n.cp.Config())
	out.BearerToken = token.Status.Token
	return out
}

// TestAgentIsBoundToItsNode: with the policies or with the webhook, the token of an agent allows only the agent's
// usual writes for its own Node.
func TestAgentIsBoundToItsNode(t *testing.T) {
	for _, way := range []struct {
		name string
		bind func(*node)
	}{{"by policies", (*node).installRights}, {"by the webhook", (*node).installWebhook}} {
		t.Run(way.name, func(t *testing.T) {
			n := newNode(t)
			controllertest.Serve(t, n.cp, n, manager.Options{})
			way.bind(n)
			n.writeEverything()
		})
	}
}

// sendHostile sends the writes of a compromised agent: to a ContainerRecreateRequest and a Pod of the agent's own
// Node, and to a ContainerRecreateRequest and a Pod of another Node.
func (n *node) sendHostile(account *rest.Config, request *v1beta1.ContainerRecreateRequest, pod *corev1.Pod, foreignRequest *v1beta1.ContainerRecreateRequest, foreign *corev1.Pod) {
	n.t.Helper()
	httpClient, err := rest.HTTPClientFor(account)
	if err != nil {
		n.t.Fatal(err)
	}
	for _, write := range hostile.AgentWrites(hostile.Places{
		Node: n.name, Namespace: n.namespace, Request: request.Name, Pod: pod.Name, SystemName: system, ForeignNode: foreign.Spec.NodeName,
		ForeignNamespace: n.namespace, ForeignRequest: foreignRequest.Name, ForeignPod: foreign.Name, ForeignUID: string(foreign.UID),
	}) {
		r, err := http.NewRequestWithContext(n.t.Context(), write.Method, account.Host+write.Path, bytes.NewReader(write.Body))
		if err != nil {
			n.t.Fatal(err)
		}
		r.Header.Set("Content-Type", write.Type)
		began := time.Now()
		answer, err := httpClient.Do(r)
		if err != nil {
			n.t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		if err = errors.Join(err, answer.Body.Close()); err != nil {
			n.t.Fatal(err)
		}
		if took := time.Since(began); took > time.Second {
			n.t.Logf("%s took %s", write.Name, took)
		}
		if passes := answer.StatusCode < 300; passes != write.Passes || answer.StatusCode >= 500 {
			n.t.Errorf("%s: %d %.300s", write.Name, answer.StatusCode, text)
		}
	}
}

// statusOf patches the status of an object.
func statusOf(of client.Client, obj client.Object, patch string, options ...client.SubResourcePatchOption) error {
	return of.Status().Patch(context.Background(), obj.DeepCopyObject().(client.Object), client.RawPatch(types.MergePatchType, []byte(patch)), options...)
}

// writeEverything tries allowed and forbidden writes with the token of an agent.
func (n *node) writeEverything() {
	t := n.t
	other := controlplane.NewNode("other-" + n.namespace)
	if err := n.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Delete(context.Background(), other) })
	mine, foreign := n.pod("mine", "app"), n.podOn("foreign", other.Name, "app")
	request, foreignRequest, ended := n.request("mine", "mine", nil, "app"), n.request("foreign", "foreign", nil, "app"), n.request("ended", "mine", nil, "app")
	images, foreignImages := &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: n.name}}, &v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: other.Name}}
	probes, foreignProbes := &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: n.name}}, &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: other.Name}}
	for _, one := range []client.Object{images, foreignImages, probes, foreignProbes} {
		if err := n.Create(t.Context(), one); client.IgnoreAlreadyExists(err) != nil { // the manager may have created the object already
			t.Fatal(err)
		}
	}
	token := n.account(n.name)
	agent, unbound := n.as(token), n.as(n.account(""))

	const phase = `{"status":{"phase":"Recreating"}}`
	note := func(value string) string {
		return fmt.Sprintf(`{"metadata":{"annotations":{"apps.kruise.io/runtime-containers-meta":%q}}}`, value)
	}
	event := func(name, host, kind string, of client.Client) error {
		return of.Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name}, Source: corev1.EventSource{Component: "kruise-daemon-crr", Host: host},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: n.namespace, Name: "mine"}, Reason: "Killing",
		})
	}
	if err := statusOf(n, ended, `{"status":{"phase":"Completed","completionTime":"2026-01-01T00:00:00Z"}}`); err != nil {
		t.Fatal(err)
	}
	// A new policy or webhook takes a moment to become effective.
	controlplanetest.Eventually(t, within, func(context.Context) error {
		if err := statusOf(agent, foreignRequest, phase); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a foreign request: %w", err)
		}
		return nil
	})
	old := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"namespace": n.namespace, "name": "foreign"}}}
	old.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("ContainerRecreateRequest"))
	states := `{"status":{"phase":"Recreating","containerRecreateStates":[` + strings.TrimSuffix(strings.Repeat(`{"name":"app","phase":"Pending"},`, 2_000), ",") + `]}}`
	for name, tt := range map[string]struct {
		err     error
		refused string // a part of the message
	}{
		"own request":                    {statusOf(agent, request, phase), ""},
		"own note":                       {statusOf(agent, mine, note("{}")), ""},
		"own event":                      {event("own", n.name, "Pod", agent), ""},
		"foreign request":                {statusOf(agent, foreignRequest, phase), "not of the agent's Node"},
		"foreign request in v1alpha1":    {statusOf(agent, old, phase), "not of the agent's Node"},
		"foreign request, dry run":       {statusOf(agent, foreignRequest, phase, client.DryRunAll), "not of the agent's Node"},
		"foreign note":                   {statusOf(agent, foreign, note("{}")), "not on the agent's Node"},
		"foreign host of an event":       {event("host", other.Name, "Pod", agent), "not the agent's Node"},
		"event of a Node":                {event("node", n.name, "Node", agent), "events of Pods, NodeImages and ImagePullJobs alone"},
		"own images":                     {statusOf(agent, images, `{"status":{"desired":0}}`), ""},
		"own images, unbound token":      {statusOf(unbound, images, `{"status":{"desired":0}}`), "not bound to a Pod"},
		"foreign images":                 {statusOf(agent, foreignImages, `{"status":{"desired":0}}`), "not of the agent's Node"},
		"own probes":                     {statusOf(agent, probes, `{"status":{"podProbeStatuses":[]}}`), ""},
		"foreign probes":                 {statusOf(agent, foreignProbes, `{"status":{"podProbeStatuses":[]}}`), "not of the agent's Node"},
		"own probes, unbound token":      {statusOf(unbound, probes, `{"status":{"podProbeStatuses":[]}}`), "not bound to a Pod"},
		"spec of own images":             {agent.Patch(t.Context(), images.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))), "cannot patch"},
		"another annotation":             {statusOf(agent, mine, `{"metadata":{"annotations":{"a":"b"}}}`), "runtime-containers-meta alone"},
		"a label":                        {statusOf(agent, mine, `{"metadata":{"labels":{"a":"b"}}}`), "an annotation alone"},
		"a finalizer":                    {statusOf(agent, mine, `{"metadata":{"finalizers":["example.com/x"]}}`), "an annotation alone"},
		"readiness":                      {statusOf(agent, mine, `{"status":{"conditions":[]}}`), "the kubelet's"},
		"a long note":                    {statusOf(agent, mine, note(strings.Repeat("x", 64<<10+1))), "is too long"},
		"back from the end":              {statusOf(agent, ended, `{"status":{"phase":"Recreating","completionTime":null}}`), "has ended"},
		"more states than containers":    {statusOf(agent, request, states), "too long"},
		"a long message":                 {statusOf(agent, request, `{"status":{"phase":"Recreating","message":"`+strings.Repeat("x", 4097)+`"}}`), "too long"},
		"a condition":                    {statusOf(agent, request, `{"status":{"phase":"Recreating","conditions":[{"type":"PreRecreateGrace","status":"True","reason":"x","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`), "the manager's"},
		"spec of a request":              {agent.Patch(t.Context(), request.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))), "cannot patch"},
		"a new request":                  {agent.Create(t.Context(), &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "x"}}), "cannot create"},
		"a Secret":                       {agent.Get(t.Context(), client.ObjectKey{Namespace: n.namespace, Name: "x"}, &corev1.Secret{}), "cannot get"},
		"own request, unbound token":     {statusOf(unbound, request, phase), "not bound to a Pod"},
		"own note, unbound token":        {statusOf(unbound, mine, note("{}")), "not bound to a Pod"},
		"own event, unbound token":       {event("unbound", n.name, "Pod", unbound), "not bound to a Pod"},
		"administrator, another note":    {statusOf(n, foreign, `{"metadata":{"annotations":{"a":"b"}}}`), ""},
		"administrator, foreign request": {statusOf(n, foreignRequest, phase), ""},
	} {
		switch {
		case tt.refused == "" && tt.err != nil:
			t.Errorf("%s: %v", name, tt.err)
		case tt.refused != "" && (!apierrors.IsForbidden(tt.err) || !strings.Contains(tt.err.Error(), tt.refused)):
			t.Errorf("%s: %.500v, want %q", name, tt.err, tt.refused)
		}
	}
	n.sendHostile(token, request, mine, foreignRequest, foreign)
}

// TestAgentsAloneWaitForTheManager: while the webhook has no server, agents cannot write, but kubelets can still
// write the statuses of Pods.
func TestAgentsAloneWaitForTheManager(t *testing.T) {
	n := newNode(t)
	n.installRights()
	configuration, webhooks, err := config.AgentWebhook()
	if err != nil {
		t.Fatal(err)
	}
	configuration.SetName(n.namespace)
	webhooks[0].(map[string]any)["clientConfig"] = map[string]any{"url": "https://localhost:1/validate-kruise-daemon"}
	if err := unstructured.SetNestedSlice(configuration.Object, webhooks, "webhooks"); err != nil {
		t.Fatal(err)
	}
	if err := n.Create(t.Context(), configuration); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Delete(context.Background(), configuration) })
	agent, pod := n.as(n.account(n.name)), n.pod("first", "app")
	const note = `{"metadata":{"annotations":{"apps.kruise.io/runtime-containers-meta":"{}"}}}`
	controlplanetest.Eventually(t, within, func(context.Context) error {
		if err := statusOf(agent, pod, note); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "vkruisedaemon.kb.io") {
			return fmt.Errorf("the agent: %w", err)
		}
		return nil
	})
	n.pod("second", "app") // waits until the kubelet has written the status
	if err := statusOf(n, pod, note); err != nil {
		t.Error(err)
	}
}

// as returns a client with the given credentials.
func (n *node) as(account *rest.Config) client.Client {
	n.t.Helper()
	c, err := client.New(account, client.Options{Scheme: n.Scheme()})
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// TestAgentNeedsNoMore: the permissions and policies of the manifests are enough for an agent that carries out a
// ContainerRecreateRequest: the API server refuses no call.
func TestAgentNeedsNoMore(t *testing.T) {
	n := newNode(t)
	controllertest.Serve(t, n.cp, n, manager.Options{})
	n.installRights()
	n.run(n.account(n.name))
	pod := n.pod("web", "app")
	since := controllertest.End(t, n.cp.AuditLog())
	n.completed(n.request("r", "web", nil, "app"))
	if got := n.restarts(pod); got != "app 1" {
		t.Errorf("restarts %s", got)
	}
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		var events corev1.EventList
		if err := n.List(ctx, &events, client.InNamespace(n.namespace), client.MatchingFields{"reason": "Killing"}); err != nil || len(events.Items) != 1 {
			return fmt.Errorf("%d events, %w", len(events.Items), err)
		}
		return nil
	})
	requests, _ := controllertest.Requests(t, n.cp.AuditLog(), since, "agent-"+n.namespace)
	// The controller writes the status at the same time, so one of the two writers may get a conflict and retry.
	got := controllertest.Tally(requests, n.namespace)
	delete(got, "patch containerrecreaterequests/status (409)")
	if diff := cmp.Diff(map[string]int{"create events": 1, "patch containerrecreaterequests/status": 2}, got); diff != "" {
		text, _ := json.Marshal(requests)
		t.Errorf("requests (-want +got):\n%s\n%s", diff, text)
	}
}
