package containerrecreaterequest

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/node/containerrestart"
	"github.com/workloadkit/workloadkit/reason"
)

// inLine is how many of the waiting requests for a Pod have a condition that names the request in progress. When a
// request ends, only these conditions are changed, however many requests wait.
const inLine = 10

// turns returns the requests for a Pod in the order in which node agents handle the requests, and for each request the
// reason why it waits.
func turns(rivals []*v1beta1.ContainerRecreateRequest) (order []*v1beta1.ContainerRecreateRequest, why []reason.Reason) {
	candidates := make([]containerrestart.Candidate, len(rivals))
	for i, rival := range rivals {
		c := containerrestart.Candidate{
			Object: reason.ObjectOf("ContainerRecreateRequest", rival), Created: rival.CreationTimestamp.Time,
			HasDeadline: rival.Spec.ActiveDeadlineSeconds != nil,
		}
		switch rival.Status.Phase {
		case v1beta1.ContainerRecreateRequestPending:
			c.Progress = containerrestart.Waiting
		case v1beta1.ContainerRecreateRequestRecreating:
			c.Progress = containerrestart.Begun
		}
		candidates[i] = c
	}
	next, waiting := containerrestart.Pick(candidates)
	if next < 0 {
		return nil, nil
	}
	order, why = append(order, rivals[next]), append(why, reason.Reason{})
	for _, w := range waiting {
		order, why = append(order, rivals[w.Index]), append(why, w.Why)
	}
	return order, why
}

// wait sets a condition that names the request for which this request waits.
func (p *plan) wait(o *observed) {
	order, whys := turns(o.rivals)
	at := slices.IndexFunc(order, func(r *v1beta1.ContainerRecreateRequest) bool { return r.UID == o.request.UID })
	if at <= 0 {
		p.status.Conditions = without(p.status.Conditions, apps.ConditionWaiting)
		return
	}
	why := whys[at]
	if at > inLine {
		why = reason.Reason{Code: containerrestart.BehindRequest, Detail: "many requests for the Pod go first", Remedy: "wait for their end, or delete them"}
	}
	condition := reason.Condition(apps.ConditionWaiting, 0, why)
	condition.LastTransitionTime = metav1.NewTime(o.now)
	meta.SetStatusCondition(&p.status.Conditions, condition)
}
