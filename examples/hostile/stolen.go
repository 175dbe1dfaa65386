package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1alpha1"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/internal/hostile"
)

const (
	system = "kruise-system"
	// robbed is the number of Pods on the Node of the attacking agent, and perPod is the number of
	// ContainerRecreateRequests for each Pod. The attacker writes nearly all of these requests again and again.
	robbed, perPod = 20, 10
	// writers is the number of writers in a burst that write at the same time.
	writers = 8
)

// stolen is an attacker with the token of a node agent.
type stolen struct {
	*villain

	c      *cluster
	at     hostile.Places
	writes []hostile.Write
	// bystander is a Pod on another Node, in its state before the attack.
	bystander *corev1.Pod
}

// bindAgents installs the roles of node agents, and the policies or the manager's webhook that restrict agents to
// their own Nodes.
func bindAgents(ctx context.Context, c client.Client, byWebhook bool) error {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: system, Labels: map[string]string{"control-plane": "openkruise"}}}
	if err := c.Create(ctx, namespace); err != nil {
		return fmt.Errorf("namespace %s: %w", system, err)
	}
	if err := config.InstallAgentRights(ctx, c); err != nil || !byWebhook {
		return err
	}
	return config.InstallAgentWebhook(ctx, c)
}

// steal creates an agent on the first Node, and Pods with requests on this Node. The result is an attacker with the
// agent's token.
func (c *cluster) steal(ctx context.Context) (*stolen, error) {
	var nodes corev1.NodeList
	if err := c.List(ctx, &nodes); err != nil || len(nodes.Items) < 2 {
		return nil, fmt.Errorf("%d Nodes: %w", len(nodes.Items), err)
	}
	s := &stolen{c: c, at: hostile.Places{
		Node: nodes.Items[0].Name, Namespace: villains, Pod: "robbed-0", Request: "robbed-0-0", SystemName: system,
		ForeignNode: nodes.Items[1].Name, ForeignNamespace: quiet, ForeignPod: "bystander", ForeignRequest: "bystander",
	}}
	account, err := s.token(ctx)
	if err != nil {
		return nil, err
	}
	if s.villain, err = newVillain(account); err != nil {
		return nil, err
	}
	for i := range robbed {
		if _, err := s.pod(ctx, villains, "robbed-"+strconv.Itoa(i), s.at.Node); err != nil {
			return nil, err
		}
	}
	if s.bystander, err = s.pod(ctx, quiet, s.at.ForeignPod, s.at.ForeignNode); err != nil {
		return nil, err
	}
	s.at.ForeignUID = string(s.bystander.UID)
	for _, name := range []string{s.at.Node, s.at.ForeignNode} { // the manager creates such objects, too
		objects := []client.Object{&v1beta1.NodeImage{ObjectMeta: metav1.ObjectMeta{Name: name}}, &v1alpha1.NodePodProbe{ObjectMeta: metav1.ObjectMeta{Name: name}}}
		for _, object := range objects {
			if err := c.Create(ctx, object); client.IgnoreAlreadyExists(err) != nil {
				return nil, fmt.Errorf("%T %s: %w", object, name, err)
			}
		}
	}
	if err := s.ask(ctx, quiet, s.at.ForeignRequest, s.at.ForeignPod); err != nil {
		return nil, err
	}
	s.writes = hostile.AgentWrites(s.at)
	return s, s.renew(ctx)
}

// token returns a client configuration with a token that is bound to an agent's Pod.
func (s *stolen) token(ctx context.Context) (*rest.Config, error) {
	agent, err := s.pod(ctx, system, "kruise-daemon-stolen", s.at.Node)
	if err != nil {
		return nil, err
	}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{
		ExpirationSeconds: ptr.To(int64(24 * 3600)),
		BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: agent.Name, UID: agent.UID},
	}}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: system, Name: "kruise-daemon"}}
	if err := s.c.SubResource("token").Create(ctx, account, request); err != nil {
		return nil, fmt.Errorf("token of the agent: %w", err)
	}
	out := rest.AnonymousClientConfig(s.c.Plane.Config())
	out.BearerToken, out.QPS = request.Status.Token, -1
	return out, nil
}

// pod creates a Pod that runs on a Node.
func (s *stolen) pod(ctx context.Context, namespace, name, node string) (*corev1.Pod, error) {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
	}
	if namespace == system {
		pod.Spec.ServiceAccountName = "kruise-daemon"
	}
	if err := s.c.Create(ctx, pod); err != nil {
		return nil, fmt.Errorf("Pod %s: %w", name, err)
	}
	return pod, wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		err := s.c.Get(ctx, client.ObjectKeyFromObject(pod), pod)
		return err == nil && pod.Status.Phase == corev1.PodRunning, err
	})
}

// ask creates a ContainerRecreateRequest for a Pod's container.
func (s *stolen) ask(ctx context.Context, namespace, name, pod string) error {
	request := &v1beta1.ContainerRecreateRequest{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	request.Spec.PodName, request.Spec.Containers = pod, []v1beta1.ContainerRecreateRequestContainer{{Name: "app"}}
	if err := s.c.Create(ctx, request); client.IgnoreAlreadyExists(err) != nil {
		return fmt.Errorf("request %s: %w", name, err)
	}
	return nil
}

// renew replaces each completed request by a new request, as users of the namespace would do.
func (s *stolen) renew(ctx context.Context) error {
	var requests v1beta1.ContainerRecreateRequestList
	if err := s.c.List(ctx, &requests, client.InNamespace(villains)); err != nil {
		return fmt.Errorf("requests: %w", err)
	}
	there := map[string]bool{}
	for i := range requests.Items {
		r := &requests.Items[i]
		if there[r.Name] = r.Status.CompletionTime == nil; there[r.Name] {
			continue
		}
		if err := s.c.Delete(ctx, r); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("deleting request %s: %w", r.Name, err)
		}
	}
	for i := range robbed {
		pod := "robbed-" + strconv.Itoa(i)
		for j := range perPod {
			if name := pod + "-" + strconv.Itoa(j); !there[name] {
				if err := s.ask(ctx, villains, name, pod); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// agentAttack is the prefix of the names of attacks by the agent. refused is the suffix of the names of attacks that
// the API server must refuse.
const agentAttack, refused = "agent: ", " (refused)"

// large is the size of a write, in bytes, above which the API server takes seconds for the write.
const large = 256 << 10

// begin starts the attacks of the agent. The pauses between large writes are as long as the pauses between the
// creations of objects in the other attacks.
func (s *stolen) begin(repeat func(name string, late, pause time.Duration, once func(context.Context) string), o options) {
	repeat("users ask for restarts", 0, time.Second, func(ctx context.Context) string {
		if err := s.renew(ctx); err != nil {
			return err.Error()
		}
		return "asked"
	})
	// The API server must process all writes. The pauses between the bursts give the API server time for other requests.
	repeat(agentAttack+"a second of writes", o.agentPause/2, o.agentPause, s.burst)
	for i, write := range s.writes {
		name, pause := agentAttack+write.Name, o.agentPause
		if !write.Passes {
			name += refused
		}
		if len(write.Body) > large {
			pause = o.pause
		}
		repeat(name, time.Duration(i)*pause/time.Duration(len(s.writes)), pause, func(ctx context.Context) string {
			return s.request(ctx, write.Method, write.Path, write.Type, write.Body)
		})
	}
}

// burst sends writes for a second, each write as soon as the API server has answered the previous write. Some writes
// change the phases of ContainerRecreateRequests back and forth. The other writes set annotations of the largest
// allowed size, each time with other content.
func (s *stolen) burst(ctx context.Context) string {
	ctx, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	var all sync.WaitGroup
	counts := make([]int, writers)
	for w := range writers {
		all.Go(func() {
			for i := w; ctx.Err() == nil; i += writers {
				pod := "robbed-" + strconv.Itoa(i%robbed)
				path := "/apis/apps.kruise.io/v1beta1/namespaces/" + villains + "/containerrecreaterequests/" + pod + "-" + strconv.Itoa(i/robbed%perPod) + "/status"
				body := fmt.Sprintf(`{"status":{"phase":%q}}`, []string{"Pending", "Recreating"}[i/robbed/perPod%2])
				if i%4 == 0 {
					path = "/api/v1/namespaces/" + villains + "/pods/" + pod + "/status"
					body = fmt.Sprintf(`{"metadata":{"annotations":{%q:"%d%s"}}}`, apps.AnnotationRuntimeContainersMeta, clock.RealClock{}.Now().UnixNano(), strings.Repeat("x", 60_000))
				}
				s.patch(ctx, path, body)
				counts[w]++
			}
		})
	}
	all.Wait()
	total := 0
	for _, n := range counts {
		total += n
	}
	return fmt.Sprintf("%d writes and more", total/100*100)
}

// succeeded returns an error for each request of the agent that the API server should have refused, and has not
// refused.
func succeeded(attacks map[string]map[string]int) (errs []error) {
	for name, answers := range attacks {
		for answer := range answers {
			code, err := strconv.Atoi(answer)
			if strings.HasPrefix(name, agentAttack) && strings.HasSuffix(name, refused) && err == nil && code < http.StatusMultipleChoices {
				errs = append(errs, fmt.Errorf("%s: %s", name, answer))
			}
		}
	}
	return errs
}

// unharmed checks that the objects of another Node have not changed.
func (s *stolen) unharmed(ctx context.Context) error {
	pod := &corev1.Pod{}
	if err := s.c.Get(ctx, client.ObjectKey{Namespace: quiet, Name: s.at.ForeignPod}, pod); err != nil {
		return fmt.Errorf("the bystander: %w", err)
	}
	was := s.bystander
	if pod.UID != was.UID || !maps.Equal(pod.Annotations, was.Annotations) || !maps.Equal(pod.Labels, was.Labels) ||
		pod.Status.ContainerStatuses[0].RestartCount != was.Status.ContainerStatuses[0].RestartCount {
		return fmt.Errorf("the bystander has changed: %+v, was %+v", pod.ObjectMeta, was.ObjectMeta)
	}
	request := &v1beta1.ContainerRecreateRequest{}
	if err := s.c.Get(ctx, client.ObjectKey{Namespace: quiet, Name: s.at.ForeignRequest}, request); err != nil {
		return fmt.Errorf("the request of the bystander: %w", err)
	}
	// No agent runs on the other Node. So a request on that Node either waits, or the controller has completed the
	// request.
	if phase := request.Status.Phase; phase != "" && phase != v1beta1.ContainerRecreateRequestCompleted {
		return fmt.Errorf("the request of the bystander is %s", phase)
	}
	return nil
}
