package admission_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/admission"
	"github.com/workloadkit/workloadkit/examples/admission/admissiontest"
)

// agentPods is a reader that finds the Pods of agents.
type agentPods struct {
	client.Reader

	pods  map[string]*corev1.Pod // by namespace/name
	err   error
	asked int
}

func (r *agentPods) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	r.asked++
	pod := r.pods[key.String()]
	switch {
	case r.err != nil:
		return r.err
	case pod == nil:
		return apierrors.NewNotFound(schema.GroupResource{Resource: "pods"}, key.Name)
	}
	pod.DeepCopyInto(obj.(*corev1.Pod))
	return nil
}

func agentPod(uid types.UID, account, node string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: uid}, Spec: corev1.PodSpec{ServiceAccountName: account, NodeName: node}}
}

// agentUser returns the user of an agent whose token has the given claims, such as "pod-name=agent-1".
func agentUser(name string, claims ...string) authenticationv1.UserInfo {
	user := authenticationv1.UserInfo{Username: "system:serviceaccount:" + name, Extra: map[string]authenticationv1.ExtraValue{}}
	for _, claim := range claims {
		key, value, _ := strings.Cut(claim, "=")
		user.Extra["authentication.kubernetes.io/"+key] = strings.Split(value, ",")
	}
	return user
}

// crr returns a ContainerRecreateRequest for a Node, with a status and a container.
func crr(node string, status tree) tree {
	return tree{
		"apiVersion": "apps.kruise.io/v1beta1", "kind": "ContainerRecreateRequest",
		"metadata": tree{"name": "r", "labels": tree{"crr.apps.kruise.io/node-name": node}},
		"spec":     tree{"containers": []any{tree{"name": "app"}}}, "status": status,
	}
}

// askAgents sends a review of a write by a user, and returns the message of the refusal.
func askAgents(t *testing.T, server admissiontest.Server, user authenticationv1.UserInfo, object, old tree) string {
	t.Helper()
	operation := admissionv1.Update
	if old == nil {
		operation = admissionv1.Create
	}
	request := admissiontest.Request(t, operation, object, old)
	request.UserInfo = user
	if group := request.Resource.Group; group == "v1" { // objects of the core group
		request.Resource.Group, request.Resource.Version = "", group
	}
	response := server.Review(t, admission.ValidateAgentPath, request)
	if response.Allowed {
		return ""
	}
	return response.Result.Message
}

// TestAgentsOfNodes checks how the handler finds the Node of an agent from the claims of the agent's token. If the
// Node is unknown, the request is refused.
func TestAgentsOfNodes(t *testing.T) {
	const unbound, foreign, broken = "not bound to a Pod on a Node", "not of the agent's Node", "is unknown"
	all := []string{"pod-name=agent-1", "pod-uid=u1", "node-name=n1"}
	for _, tc := range []struct {
		name   string
		user   authenticationv1.UserInfo
		pod    *corev1.Pod
		err    error
		blind  bool
		refuse string
	}{
		{name: "4.2 all claims", user: agentUser("system:kruise-daemon", all...)},
		{name: "4.2 no claim of the Node, as below 1.30", user: agentUser("system:kruise-daemon", all[:2]...)},
		{name: "4.2 somebody else", user: authenticationv1.UserInfo{Username: "system:node:n2"}},
		{name: "4.2 another account", user: agentUser("system:default")},
		{name: "4.2 no claim", user: agentUser("system:kruise-daemon"), refuse: unbound},
		{name: "4.2 no UID", user: agentUser("system:kruise-daemon", all[0]), refuse: unbound},
		{name: "4.2 no name", user: agentUser("system:kruise-daemon", all[1:]...), refuse: unbound},
		{name: "4.2 two names", user: agentUser("system:kruise-daemon", "pod-name=agent-1,agent-2", all[1]), refuse: unbound},
		{name: "4.2 a Pod that nobody knows", user: agentUser("system:kruise-daemon", "pod-name=agent-9", all[1]), refuse: unbound},
		{name: "4.2 a Pod of another namespace", user: agentUser("elsewhere:kruise-daemon", all...), refuse: unbound},
		{name: "4.2 a Pod that has been replaced", user: agentUser("system:kruise-daemon", all...), pod: agentPod("u2", "kruise-daemon", "n1"), refuse: unbound},
		{name: "4.2 a Pod of another account", user: agentUser("system:kruise-daemon", all...), pod: agentPod("u1", "default", "n1"), refuse: unbound},
		{name: "4.2 a Pod on no Node", user: agentUser("system:kruise-daemon", all[:2]...), pod: agentPod("u1", "kruise-daemon", ""), refuse: unbound},
		{name: "4.2 a Pod on another Node", user: agentUser("system:kruise-daemon", all[:2]...), pod: agentPod("u1", "kruise-daemon", "n2"), refuse: foreign},
		{name: "4.2 claims that disagree", user: agentUser("system:kruise-daemon", all...), pod: agentPod("u1", "kruise-daemon", "n2"), refuse: unbound},
		{name: "4.2 an API server that does not answer", user: agentUser("system:kruise-daemon", all...), err: errors.New("down"), refuse: broken},
		{name: "4.2 nobody to ask", user: agentUser("system:kruise-daemon", all...), blind: true, refuse: broken},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := tc.pod
			if pod == nil {
				pod = agentPod("u1", "kruise-daemon", "n1")
			}
			options := admission.Options{Reader: &agentPods{pods: map[string]*corev1.Pod{"system/agent-1": pod}, err: tc.err}}
			if tc.blind {
				options.Reader = nil
			}
			server := admissiontest.Server(admission.Handlers(options, admission.Agents(options)))
			got := askAgents(t, server, tc.user, crr("n1", tree{"phase": "Recreating"}), crr("n1", tree{}))
			if (got == "") != (tc.refuse == "") || !strings.Contains(got, tc.refuse) {
				t.Errorf("%q, want %q", got, tc.refuse)
			}
		})
	}
}

// TestAgentsAreRemembered: the handler reads an agent's Pod once, and a missing Pod again for each request.
func TestAgentsAreRemembered(t *testing.T) {
	reader := &agentPods{pods: map[string]*corev1.Pod{}}
	options := admission.Options{Reader: reader}
	server := admissiontest.Server(admission.Handlers(options, admission.Agents(options)))
	user := agentUser("system:kruise-daemon", "pod-name=agent-1", "pod-uid=u1")
	var got []int
	for range 2 {
		askAgents(t, server, user, crr("n1", nil), crr("n1", nil))
		got = append(got, reader.asked)
	}
	reader.pods["system/agent-1"] = agentPod("u1", "kruise-daemon", "n1")
	for range 2 {
		if why := askAgents(t, server, user, crr("n1", nil), crr("n1", nil)); why != "" {
			t.Error(why)
		}
		got = append(got, reader.asked)
	}
	if diff := cmp.Diff([]int{1, 2, 3, 3}, got); diff != "" {
		t.Errorf("look-ups (-want +got):\n%s", diff)
	}
}

// TestAgentRights checks what the agent of Node n1 may write. A test of the policies in examples/config/daemon checks
// the same table on a real API server.
func TestAgentRights(t *testing.T) {
	pod := func(node string, annotations tree) tree {
		return tree{"apiVersion": "v1", "kind": "Pod", "metadata": tree{"name": "p", "annotations": annotations}, "spec": tree{"nodeName": node}, "status": tree{"phase": "Running"}}
	}
	event := func(host, kind string) tree {
		return tree{"apiVersion": "v1", "kind": "Event", "metadata": tree{"name": "e"}, "source": tree{"host": host}, "involvedObject": tree{"kind": kind}}
	}
	state := func(n int, message string) []any {
		out := []any{}
		for range n {
			out = append(out, tree{"name": "app", "message": message})
		}
		return out
	}
	ofNode := func(kind, node string, status tree) tree {
		return tree{"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "metadata": tree{"name": node}, "spec": tree{}, "status": status}
	}
	const note = "apps.kruise.io/runtime-containers-meta"
	ended := tree{"phase": "Completed", "completionTime": "2026-01-01T00:00:00Z"}
	for _, tc := range []struct {
		name        string
		before, now tree
		refuse      string
	}{
		{"progress", crr("n1", tree{}), crr("n1", tree{"phase": "Recreating", "containerRecreateStates": state(1, "x")}), ""},
		{"the end", crr("n1", tree{}), crr("n1", ended), ""},
		{"the end once more", crr("n1", ended), crr("n1", ended), ""},
		{"back from the end", crr("n1", ended), crr("n1", tree{"phase": "Recreating"}), "has ended"},
		{"a condition", crr("n1", tree{}), crr("n1", tree{"conditions": []any{tree{"type": "Waiting"}}}), "the manager's"},
		{"a snapshot", crr("n1", tree{}), crr("n1", tree{"containerStatusSnapshot": []any{tree{"name": "app"}}}), "the manager's"},
		{"more states than containers", crr("n1", tree{}), crr("n1", tree{"containerRecreateStates": state(2, "")}), "too long"},
		{"a long message", crr("n1", tree{}), crr("n1", tree{"message": strings.Repeat("x", 4097)}), "too long"},
		{"a long message of a container", crr("n1", tree{}), crr("n1", tree{"containerRecreateStates": state(1, strings.Repeat("x", 4097))}), "too long"},
		{"a foreign request", crr("n2", tree{}), crr("n1", tree{}), "not of the agent's Node"},
		{"a new request", nil, crr("n1", tree{}), "not of the agent's Node"},
		{"a note", pod("n1", tree{"a": "b"}), pod("n1", tree{"a": "b", note: "{}"}), ""},
		{"a long note", pod("n1", tree{}), pod("n1", tree{note: strings.Repeat("x", 64<<10+1)}), "too long"},
		{"a foreign Pod", pod("n2", tree{}), pod("n2", tree{note: "{}"}), "not on the agent's Node"},
		{"a new Pod", nil, pod("n1", tree{}), "not on the agent's Node"},
		{"another note", pod("n1", tree{}), pod("n1", tree{"a": "b"}), "alone"},
		{"another note removed", pod("n1", tree{"a": "b"}), pod("n1", tree{}), "alone"},
		{"another note changed", pod("n1", tree{"a": "b"}), pod("n1", tree{"a": "c"}), "alone"},
		{"a label", pod("n1", tree{}), admissiontest.Edit(t, pod("n1", tree{}), "/metadata/labels", tree{"a": "b"}), "an annotation alone"},
		{"a finalizer", pod("n1", tree{}), admissiontest.Edit(t, pod("n1", tree{}), "/metadata/finalizers", []any{"a"}), "an annotation alone"},
		{"an owner", pod("n1", tree{}), admissiontest.Edit(t, pod("n1", tree{}), "/metadata/ownerReferences", []any{tree{"name": "a"}}), "an annotation alone"},
		{"readiness", pod("n1", tree{}), admissiontest.Edit(t, pod("n1", tree{}), "/status/phase", "Failed"), "the kubelet's"},
		{"an event", nil, event("n1", "Pod"), ""},
		{"an event of another Node", nil, event("n2", "Pod"), "not the agent's Node"},
		{"an event of another Node changed", event("n2", "Pod"), event("n1", "Pod"), "not the agent's Node"},
		{"an event of a Node", nil, event("n1", "Node"), "events of Pods, NodeImages and ImagePullJobs alone"},
		{"an event of a job", nil, event("n1", "ImagePullJob"), ""},
		{"images", ofNode("NodeImage", "n1", tree{}), ofNode("NodeImage", "n1", tree{"desired": 1}), ""},
		{"images of another Node", ofNode("NodeImage", "n2", tree{}), ofNode("NodeImage", "n2", tree{"desired": 1}), "the NodeImage is not of the agent's Node"},
		{"new images", nil, ofNode("NodeImage", "n1", tree{}), "the NodeImage is not of the agent's Node"},
		{"probes", ofNode("NodePodProbe", "n1", tree{}), ofNode("NodePodProbe", "n1", tree{"podProbeStatuses": []any{}}), ""},
		{"probes of another Node", ofNode("NodePodProbe", "n2", tree{}), ofNode("NodePodProbe", "n2", tree{"podProbeStatuses": []any{}}), "not of the agent's Node"},
		{"a Secret", nil, tree{"apiVersion": "v1", "kind": "Secret", "metadata": tree{"name": "s"}}, "nothing of this kind"},
		{"labels that are none", crr("n1", tree{}), admissiontest.Edit(t, crr("n1", tree{}), "/metadata/labels", "x"), "decoding"},
	} {
		t.Run("4.2 "+tc.name, func(t *testing.T) {
			options := admission.Options{Reader: &agentPods{pods: map[string]*corev1.Pod{"system/agent-1": agentPod("u1", "kruise-daemon", "n1")}}}
			server := admissiontest.Server(admission.Handlers(options, admission.Agents(options)))
			got := askAgents(t, server, agentUser("system:kruise-daemon", "pod-name=agent-1", "pod-uid=u1"), tc.now, tc.before)
			if (got == "") != (tc.refuse == "") || !strings.Contains(got, tc.refuse) {
				t.Errorf("%q, want %q", got, tc.refuse)
			}
		})
	}
}
