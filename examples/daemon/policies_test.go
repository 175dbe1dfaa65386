package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
	"github.com/workloadkit/workloadkit/testing/install"
)

const system = "kruise-system"

// installRights applies the manifests of the agent, without the DaemonSet, until the test ends.
func (n *node) installRights() {
	n.t.Helper()
	if err := n.Create(n.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system}}); client.IgnoreAlreadyExists(err) != nil {
		n.t.Fatal(err)
	}
	files, err := filepath.Glob("../config/daemon/*.yaml")
	if err != nil || len(files) != 6 {
		n.t.Fatal(files, err)
	}
	for _, file := range files {
		if filepath.Base(file) == "daemonset.yaml" {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			n.t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(text), "\n---\n") {
			if err := install.Manifest(n.t.Context(), n, []byte(document)); err != nil {
				n.t.Fatal(file, err)
			}
		}
	}
}

// account returns a configuration with a token of the agent that is bound to a Pod on a Node; without a Node the token is
// bound to nothing.
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
	config := rest.AnonymousClientConfig(n.cp.Config())
	config.BearerToken = token.Status.Token
	return config
}

// TestAgentIsBoundToItsNode: with the policies, the token of an agent writes for its own Node what the agent writes, and
// nothing else.
func TestAgentIsBoundToItsNode(t *testing.T) {
	n := newNode(t)
	controllertest.Serve(t, n.cp, n, manager.Options{})
	n.installRights()
	other := controlplane.NewNode("other-" + n.namespace)
	if err := n.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = n.Delete(context.Background(), other) })
	mine, foreign := n.pod("mine", "app"), n.podOn("foreign", other.Name, "app")
	request, foreignRequest := n.request("mine", "mine", nil, "app"), n.request("foreign", "foreign", nil, "app")
	agent, unbound := n.as(n.account(n.name)), n.as(n.account(""))

	phase := `{"status":{"phase":"Recreating"}}`
	note := `{"metadata":{"annotations":{"apps.kruise.io/runtime-containers-meta":"{}"}}}`
	pods := func(pod *corev1.Pod, patch string, of client.Client) error {
		return of.Status().Patch(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: pod.Name}}, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	requests := func(r *v1beta1.ContainerRecreateRequest, patch string, of client.Client) error {
		return of.Status().Patch(t.Context(), &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: r.Name}}, client.RawPatch(types.MergePatchType, []byte(patch)))
	}
	event := func(name, host, kind string, of client.Client) error {
		return of.Create(t.Context(), &corev1.Event{
			ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name}, Source: corev1.EventSource{Component: "kruise-daemon-crr", Host: host},
			InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: kind, Namespace: n.namespace, Name: "mine"}, Reason: "Killing",
		})
	}
	// A policy takes a moment to hold.
	controlplanetest.Eventually(t, within, func(context.Context) error {
		if err := requests(foreignRequest, phase, agent); !apierrors.IsForbidden(err) {
			return fmt.Errorf("a foreign request: %w", err)
		}
		return nil
	})
	for name, tt := range map[string]struct {
		err     error
		refused string // a part of the message
	}{
		"own request":                    {requests(request, phase, agent), ""},
		"own note":                       {pods(mine, note, agent), ""},
		"own event":                      {event("own", n.name, "Pod", agent), ""},
		"foreign request":                {requests(foreignRequest, phase, agent), "not of the agent's Node"},
		"foreign request, dry run":       {agent.Status().Patch(t.Context(), foreignRequest.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(phase)), client.DryRunAll), "not of the agent's Node"},
		"foreign note":                   {pods(foreign, note, agent), "not on the agent's Node"},
		"foreign host of an event":       {event("host", other.Name, "Pod", agent), "not the agent's Node"},
		"event of a Node":                {event("node", n.name, "Node", agent), "events of Pods alone"},
		"another annotation":             {pods(mine, `{"metadata":{"annotations":{"a":"b"}}}`, agent), "runtime-containers-meta alone"},
		"a label":                        {pods(mine, `{"metadata":{"labels":{"a":"b"}}}`, agent), "an annotation alone"},
		"a finalizer":                    {pods(mine, `{"metadata":{"finalizers":["example.com/x"]}}`, agent), "an annotation alone"},
		"readiness":                      {pods(mine, `{"status":{"conditions":[]}}`, agent), "the kubelet's"},
		"spec of a request":              {agent.Patch(t.Context(), request.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"a":"b"}}}`))), "cannot patch"},
		"a new request":                  {agent.Create(t.Context(), &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: "x"}}), "cannot create"},
		"a Secret":                       {agent.Get(t.Context(), client.ObjectKey{Namespace: n.namespace, Name: "x"}, &corev1.Secret{}), "cannot get"},
		"own request, unbound token":     {requests(request, phase, unbound), "not bound to a Pod"},
		"own note, unbound token":        {pods(mine, note, unbound), "not bound to a Pod"},
		"own event, unbound token":       {event("unbound", n.name, "Pod", unbound), "not bound to a Pod"},
		"administrator, another note":    {pods(foreign, `{"metadata":{"annotations":{"a":"b"}}}`, n), ""},
		"administrator, foreign request": {requests(foreignRequest, phase, n), ""},
	} {
		switch {
		case tt.refused == "" && tt.err != nil:
			t.Errorf("%s: %v", name, tt.err)
		case tt.refused != "" && (!apierrors.IsForbidden(tt.err) || !strings.Contains(tt.err.Error(), tt.refused)):
			t.Errorf("%s: %v, want %q", name, tt.err, tt.refused)
		}
	}
}

// as returns a client with another account.
func (n *node) as(config *rest.Config) client.Client {
	n.t.Helper()
	c, err := client.New(config, client.Options{Scheme: n.Scheme()})
	if err != nil {
		n.t.Fatal(err)
	}
	return c
}

// TestAgentNeedsNoMore: the agent carries a request out with the rights of the manifests and the policies in force, and
// nothing of what it does is refused.
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
	// The controller writes into the status at the same time, and the later of the two tries again.
	got := controllertest.Tally(requests, n.namespace)
	delete(got, "patch containerrecreaterequests/status (409)")
	if diff := cmp.Diff(map[string]int{"create events": 1, "patch containerrecreaterequests/status": 2}, got); diff != "" {
		text, _ := json.Marshal(requests)
		t.Errorf("requests (-want +got):\n%s\n%s", diff, text)
	}
}
