package main

import (
	"context"
	"errors"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/internal/hostile"
	"github.com/workloadkit/workloadkit/examples/internal/served"
)

const (
	quiet    = "quiet"
	villains = "hostile"
)

// cluster is a control plane with a running manager and its webhooks.
type cluster struct{ *served.Cluster }

func start(ctx context.Context, o options) (*cluster, error) {
	c, err := served.Start(ctx, served.Options{Manager: o.manager, Nodes: 10, Prepare: func(ctx context.Context, c client.Client) error {
		return errors.Join(createNamespaces(ctx, c), bindAgents(ctx, c, o.byWebhook))
	}})
	if err != nil {
		return nil, err
	}
	if err := c.Create(ctx, &unstructured.Unstructured{Object: hostile.Mesh()}); err != nil {
		return nil, errors.Join(fmt.Errorf("the SidecarSet: %w", err), c.Stop(context.WithoutCancel(ctx)))
	}
	return &cluster{c}, nil
}

func createNamespaces(ctx context.Context, c client.Client) error {
	for _, name := range []string{quiet, villains} {
		if err := c.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			return fmt.Errorf("namespace %s: %w", name, err)
		}
	}
	return nil
}

// asEditor returns the configuration of a user who has the role edit in a single namespace.
func (c *cluster) asEditor(ctx context.Context) (*rest.Config, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: villains, Name: "villain"}}
	subject := []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: villains, Name: account.Name}}
	// The manifests in examples/config/rbac would add the kinds to the role edit; here a separate role grants the
	// permissions.
	role := &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: villains, Name: "villain"},
		Rules:      []rbacv1.PolicyRule{{APIGroups: []string{"apps.kruise.io", "policy.kruise.io"}, Resources: []string{"*"}, Verbs: []string{"*"}}},
	}
	for _, object := range []client.Object{
		account, role,
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: villains, Name: "edit"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "edit"},
		},
		&rbacv1.RoleBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: villains, Name: "villain"}, Subjects: subject,
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: role.Name},
		},
	} {
		if err := c.Create(ctx, object); err != nil {
			return nil, fmt.Errorf("creating %s: %w", object.GetName(), err)
		}
	}
	token := &authenticationv1.TokenRequest{}
	if err := c.SubResource("token").Create(ctx, account, token); err != nil {
		return nil, fmt.Errorf("token: %w", err)
	}
	out := rest.AnonymousClientConfig(c.Plane.Config())
	out.BearerToken, out.QPS = token.Status.Token, -1
	return out, nil
}
