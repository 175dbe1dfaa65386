package admission

import (
	"context"
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// managerAccount is the name of the manager's own service account.
const managerAccount = "kruise-manager"

// SecretReview asks the API server whether the user of a request may read Secrets. A controller reads the Secrets
// with the manager's permissions, so without the review each user who may write an object could use any Secret.
type SecretReview struct {
	client  client.Writer
	manager string // the manager's user name
}

// NewSecretReview returns a SecretReview. Without options.Client, nothing is refused.
func NewSecretReview(options Options) SecretReview {
	return SecretReview{client: options.Client, manager: "system:serviceaccount:" + options.Namespace + ":" + managerAccount}
}

// mostAsked is the largest number of Secrets in a request for which Check asks the API server.
const mostAsked = 255

// Check returns an error for each Secret that the user of the request in ctx may not get. The manager itself may use
// all Secrets, because the manager creates its objects from objects whose users were checked before. Namespace is the
// namespace of the Secrets, and path is the path of the list of names.
func (r SecretReview) Check(ctx context.Context, namespace string, names []string, path *field.Path) (problems field.ErrorList, err error) {
	if r.client == nil || len(names) == 0 {
		return nil, nil
	}
	if len(names) > mostAsked {
		return field.ErrorList{field.TooMany(path, len(names), mostAsked)}, nil
	}
	req, err := admission.RequestFromContext(ctx)
	if err != nil {
		return nil, fmt.Errorf("the author of the request is unknown: %w", err)
	}
	if req.UserInfo.Username == r.manager {
		return nil, nil
	}
	ctx, cancel := context.WithTimeout(ctx, judgement)
	defer cancel()
	asked := map[string]bool{}
	for i, name := range names {
		if asked[name] {
			continue
		}
		asked[name] = true
		review := reviewOf(&req, namespace, name)
		if err := r.client.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("asking whether %s may get Secret %s/%s: %w", req.UserInfo.Username, namespace, name, err)
		}
		if !review.Status.Allowed {
			problems = append(problems, field.Forbidden(path.Index(i), fmt.Sprintf("%s may not get Secret %s", req.UserInfo.Username, name)))
		}
	}
	return problems, nil
}

func reviewOf(req *admission.Request, namespace, name string) *authorizationv1.SubjectAccessReview {
	extra := map[string]authorizationv1.ExtraValue{}
	for key, value := range req.UserInfo.Extra {
		extra[key] = authorizationv1.ExtraValue(value)
	}
	return &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		ResourceAttributes: &authorizationv1.ResourceAttributes{Namespace: namespace, Verb: "get", Version: "v1", Resource: "secrets", Name: name},
		User:               req.UserInfo.Username, Groups: req.UserInfo.Groups, UID: req.UserInfo.UID, Extra: extra,
	}}
}
