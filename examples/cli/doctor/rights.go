package doctor

import (
	"context"

	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/cli/checkup"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
)

// rights returns the permissions without which the manager cannot run any workload.
func rights() []authorizationv1.ResourceAttributes {
	return []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "pods"},
		{Verb: "patch", Resource: "pods"},
		{Verb: "delete", Resource: "pods"},
		{Verb: "watch", Resource: "pods"},
		{Verb: "create", Group: "apps", Resource: "controllerrevisions"},
		{Verb: "watch", Group: facts.AppsGroup, Resource: "clonesets"},
		{Verb: "update", Group: facts.AppsGroup, Resource: "clonesets", Subresource: "status"},
		{Verb: "create", Resource: "events"},
	}
}

// readRights asks the API server which of the rights the manager's account lacks.
func (r *reader) readRights(ctx context.Context, f *checkup.Facts) {
	account := f.Manager.Spec.Template.Spec.ServiceAccountName
	if account == "" {
		account = "default"
	}
	f.Account = f.Manager.Namespace + "/" + account
	for _, right := range rights() {
		review, err := r.clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{
			Spec: authorizationv1.SubjectAccessReviewSpec{
				User:               "system:serviceaccount:" + f.Manager.Namespace + ":" + account,
				Groups:             []string{"system:serviceaccounts", "system:serviceaccounts:" + f.Manager.Namespace, "system:authenticated"},
				ResourceAttributes: &right,
			},
		}, metav1.CreateOptions{})
		if !r.note("the manager's rights", err) {
			return
		}
		if !review.Status.Allowed {
			f.LackingRights = append(f.LackingRights, name(&right))
		}
	}
}

// name renders a right: "update clonesets.apps.kruise.io/status".
func name(right *authorizationv1.ResourceAttributes) string {
	text := right.Verb + " " + right.Resource
	if right.Group != "" {
		text += "." + right.Group
	}
	if right.Subresource != "" {
		text += "/" + right.Subresource
	}
	return text
}
