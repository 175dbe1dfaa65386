package agents

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestDeniedNodesHideNobody: a policy refuses the updates of eight Nodes that come before the last Node. Each refusal
// delays the next attempt for the same Node, so the operator updates the last Node before a second attempt for a
// refused Node.
func TestDeniedNodesHideNobody(t *testing.T) {
	const denied = 8
	chaos.Run(t, chaos.Plan{
		Scheme: newScheme(t), Kinds: []client.Object{&Agent{}, &corev1.Node{}}, Quiet: 6 * time.Minute, Steps: 1, Seeds: 1,
		New: func(w *chaos.World) chaos.Subject {
			s := &season{World: w, ended: map[endings]ending{}}
			old := map[string]bool{}
			return chaos.Subject{
				Setup: func(ctx context.Context, mgr manager.Manager) (err error) {
					s.operator, err = setup(ctx, mgr)
					return err
				},
				Begin: func() { s.beginOn(denied + 1) },
				Users: func() {},
				Denies: func(call faultapi.Call, _ client.Object) error {
					if call.Resource.Resource == "pods" && old[call.Name] && (call.Verb == "delete" || call.Verb == "patch" && call.Subresource == "") {
						return apierrors.NewForbidden(call.Resource, call.Name, errors.New("a policy says no"))
					}
					return nil
				},
				Settle: func() { s.updateLast(old) },
			}
		},
	})
}

// beginOn creates an Agent on the given number of Nodes; at most one Node may be unavailable.
func (s *season) beginOn(nodes int) {
	for i := range nodes {
		s.must(s.User.Create(context.Background(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("node-%d", i)}}))
	}
	s.create()
	agent := s.agent()
	agent.Spec.MaxUnavailable, agent.Spec.Partition = 1, 0
	s.update(agent)
}

// updateLast sets an image that the policy refuses on all Nodes except the last Node, and waits half an hour.
func (s *season) updateLast(old map[string]bool) {
	rest := func() {
		s.Sleep(10 * time.Second)
		s.Nodes.Settle()
		s.CatchUp()
	}
	for range 10 {
		rest()
	}
	for _, pod := range faultapi.All[*corev1.Pod](s.Server) {
		old[pod.Name] = nodeOf(pod) != "node-0"
	}
	agent := s.agent()
	agent.Spec.Template.Spec.Containers[0].Image = "app:v2"
	s.update(agent)
	defer clear(old)
	for range 180 {
		rest()
		for _, pod := range faultapi.All[*corev1.Pod](s.Server) {
			if nodeOf(pod) == "node-0" && pod.Spec.Containers[0].Image == "app:v2" {
				return
			}
		}
	}
	s.Failf("starved", "node-0 is not updated in half an hour")
}
