package admission

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// ValidateAgentPath is the path of reviews of writes by node agents.
const ValidateAgentPath = "/validate-kruise-daemon"

// These are keys of userInfo.extra in a review: claims of the ServiceAccount token of the request.
const (
	claimPodName  = "authentication.kubernetes.io/pod-name"
	claimPodUID   = "authentication.kubernetes.io/pod-uid"
	claimNodeName = "authentication.kubernetes.io/node-name"
)

// Agents restricts each node agent to objects of its own Node, for API servers without ValidatingAdmissionPolicies.
// Before Kubernetes 1.30 a token names the Pod of the agent, but not the Node, so options.Reader reads the Pod. If
// the Node is unknown, the request is refused. Requests of users other than node agents are admitted.
func Agents(options Options) Endpoint {
	return &agents{reader: options.Reader, nodes: cache.NewLRUExpireCache(mostAgents)}
}

const (
	// mostAgents and agentKept limit how many agents are remembered, and for how long. The remembered Node stays
	// correct, because a Pod never moves to another Node, and the API server accepts no token of a deleted Pod.
	mostAgents = 10_000
	agentKept  = time.Minute
)

// agents remembers the Nodes of agents, by Pod. If an agent's Pod was not found, nothing is remembered.
type agents struct {
	reader client.Reader
	nodes  *cache.LRUExpireCache
}

func (a *agents) endpoint() endpoint {
	return endpoint{handlers: map[string]admission.Handler{ValidateAgentPath: admission.HandlerFunc(a.judge)}}
}

func (a *agents) judge(ctx context.Context, req admission.Request) admission.Response {
	account, isAgent := agentOf(req.UserInfo.Username)
	if !isAgent {
		return admission.Allowed("")
	}
	node, err := a.nodeOf(ctx, account, req.UserInfo.Extra)
	if err != nil {
		return Refuse(ctx, fmt.Errorf("the Node of %s is unknown: %w", req.UserInfo.Username, err))
	}
	why := unbound
	if node != "" {
		why, err = refusedToAgent(node, &req.AdmissionRequest)
	}
	resource := schema.GroupResource{Group: req.Resource.Group, Resource: req.Resource.Resource}
	switch {
	case err != nil:
		return Refuse(ctx, apierrors.NewBadRequest(fmt.Sprintf("decoding %s %q: %v", resource, req.Name, err)))
	case why != "":
		return Refuse(ctx, apierrors.NewForbidden(resource, req.Name, errors.New(why)))
	}
	return admission.Allowed("")
}

// agentOf returns the namespace and name of a node agent's ServiceAccount.
func agentOf(username string) (account client.ObjectKey, ok bool) {
	const agent = "kruise-daemon"
	name, ok := strings.CutPrefix(username, "system:serviceaccount:")
	if !ok {
		return account, false
	}
	account.Namespace, account.Name, ok = strings.Cut(name, ":")
	return account, ok && account.Name == agent
}

// nodeOf returns the Node of the Pod in the claims of an agent's token; empty if the token is not bound to a Pod on a
// Node.
func (a *agents) nodeOf(ctx context.Context, account client.ObjectKey, claims map[string]authenticationv1.ExtraValue) (string, error) {
	name, uid, claimed := claim(claims, claimPodName), claim(claims, claimPodUID), claim(claims, claimNodeName)
	if name == "" || uid == "" {
		return "", nil
	}
	type key struct{ namespace, pod, uid string }
	known := key{account.Namespace, name, uid}
	node, ok := a.nodes.Get(known)
	if !ok {
		if a.reader == nil {
			return "", errNoReader
		}
		pod := &corev1.Pod{}
		err := a.reader.Get(ctx, client.ObjectKey{Namespace: account.Namespace, Name: name}, pod)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		if err != nil {
			return "", fmt.Errorf("looking up Pod %s/%s: %w", account.Namespace, name, err)
		}
		if string(pod.UID) != uid || pod.Spec.ServiceAccountName != account.Name || pod.Spec.NodeName == "" {
			return "", nil
		}
		a.nodes.Add(known, pod.Spec.NodeName, agentKept)
		node = pod.Spec.NodeName
	}
	on, _ := node.(string)
	if claimed != "" && claimed != on {
		return "", nil
	}
	return on, nil
}

// claim returns the value of a claim that has exactly one value.
func claim(claims map[string]authenticationv1.ExtraValue, key string) string {
	if values := claims[key]; len(values) == 1 {
		return values[0]
	}
	return ""
}
