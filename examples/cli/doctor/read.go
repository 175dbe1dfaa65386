package doctor

import (
	"context"
	"encoding/base64"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"github.com/workloadkit/workloadkit/examples/cli/checkup"
	"github.com/workloadkit/workloadkit/examples/cli/facts"
	"github.com/workloadkit/workloadkit/examples/cli/fields"
	"github.com/workloadkit/workloadkit/reason"
)

// These are the names of an installation.
const (
	webhookSuffix = ".kb.io"
	secretName    = "kruise-webhook-certs"
	serviceMark   = "kruise-webhook-service"
	managerLabel  = "control-plane=controller-manager"
	agents        = "kruise-daemon"
	systemName    = "kruise-system"
)

// reader reads the objects of an installation, and records the objects that cannot be read.
type reader struct {
	clients kubernetes.Interface
	objects dynamic.Interface
	unread  []string
}

func newReader(f cmdutil.Factory) (*reader, error) {
	clients, err := f.KubernetesClientSet()
	if err != nil {
		return nil, err
	}
	objects, err := f.DynamicClient()
	return &reader{clients: clients, objects: objects}, err
}

// note reports whether a read has succeeded. If the read has failed, note records what could not be read, and the
// error.
func (r *reader) note(what string, err error) bool {
	if err != nil {
		r.unread = append(r.unread, fmt.Sprintf("%s: %v", what, err))
	}
	return err == nil
}

func (r *reader) facts(ctx context.Context, now time.Time) (f checkup.Facts) {
	f.Now = now
	r.readCRDs(ctx, &f)
	r.readWebhooks(ctx, &f)
	r.readServices(ctx, &f)
	namespace := namespaceOf(&f)
	r.readManager(ctx, &f, namespace)
	secret, err := r.clients.CoreV1().Secrets(namespace).Get(ctx, secretName, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) && r.note("the certificate of the webhooks", err) {
		// The Secret also has the private key, which the command never uses.
		if f.Certificate = secret.Data["cert.pem"]; len(f.Certificate) == 0 {
			f.Certificate = secret.Data["tls.crt"]
		}
	}
	return f
}

// namespaceOf returns the namespace of the webhooks' Service.
func namespaceOf(f *checkup.Facts) string {
	for _, h := range f.Hooks {
		if namespace, _, ok := strings.Cut(h.Service, "/"); ok {
			return namespace
		}
	}
	return systemName
}

func (r *reader) readCRDs(ctx context.Context, f *checkup.Facts) {
	resource := schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
	all, err := r.objects.Resource(resource).List(ctx, metav1.ListOptions{})
	if !r.note("CustomResourceDefinitions", err) {
		return
	}
	for _, crd := range all.Items {
		if !facts.IsKruise(fields.String(crd.Object, "spec.group")) {
			continue
		}
		f.CRDs = append(f.CRDs, crd)
		const path = "spec.conversion.webhook"
		if fields.String(crd.Object, "spec.conversion.strategy") != "Webhook" {
			continue
		}
		h := checkup.Hook{Object: reason.Object{Kind: "CustomResourceDefinition", Name: crd.GetName()}, Path: path, Refuses: true}
		h.Bundle, err = base64.StdEncoding.DecodeString(fields.String(crd.Object, path+".clientConfig.caBundle"))
		r.note(crd.GetName(), err)
		if name := fields.String(crd.Object, path+".clientConfig.service.name"); name != "" {
			h.Service = fields.String(crd.Object, path+".clientConfig.service.namespace") + "/" + name
		}
		f.Hooks = append(f.Hooks, h)
	}
}

// readWebhooks reads the webhook configurations of the manager.
func (r *reader) readWebhooks(ctx context.Context, f *checkup.Facts) {
	mutating, err := r.clients.AdmissionregistrationV1().MutatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if r.note("MutatingWebhookConfigurations", err) {
		for i := range mutating.Items {
			for _, w := range mutating.Items[i].Webhooks {
				add(f, "MutatingWebhookConfiguration", mutating.Items[i].Name, w.Name, &w.ClientConfig, w.FailurePolicy)
			}
		}
	}
	validating, err := r.clients.AdmissionregistrationV1().ValidatingWebhookConfigurations().List(ctx, metav1.ListOptions{})
	if r.note("ValidatingWebhookConfigurations", err) {
		for i := range validating.Items {
			for _, w := range validating.Items[i].Webhooks {
				add(f, "ValidatingWebhookConfiguration", validating.Items[i].Name, w.Name, &w.ClientConfig, w.FailurePolicy)
			}
		}
	}
}

func add(f *checkup.Facts, kind, name, webhook string, config *admissionv1.WebhookClientConfig, policy *admissionv1.FailurePolicyType) {
	if !strings.HasPrefix(name, "kruise") && (config.Service == nil || config.Service.Name != serviceMark) {
		return
	}
	h := checkup.Hook{
		Object: reason.Object{Kind: kind, Name: name}, Path: "webhooks[" + strings.TrimSuffix(webhook, webhookSuffix) + "]",
		Bundle: config.CABundle, Refuses: policy == nil || *policy == admissionv1.Fail,
	}
	if config.Service != nil {
		h.Service = config.Service.Namespace + "/" + config.Service.Name
	}
	f.Hooks = append(f.Hooks, h)
}

// readServices counts the ready addresses of the hooks' Services.
func (r *reader) readServices(ctx context.Context, f *checkup.Facts) {
	f.Ready = map[string]int{}
	seen := map[string]bool{}
	for _, h := range f.Hooks {
		namespace, name, isService := strings.Cut(h.Service, "/")
		if !isService || seen[h.Service] {
			continue
		}
		seen[h.Service] = true
		_, err := r.clients.CoreV1().Services(namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) {
			continue
		}
		if !r.note("Service "+h.Service, err) {
			return
		}
		slices, err := r.clients.DiscoveryV1().EndpointSlices(namespace).List(ctx, metav1.ListOptions{LabelSelector: discoveryv1.LabelServiceName + "=" + name})
		if !r.note("EndpointSlices of "+h.Service, err) {
			return
		}
		f.Ready[h.Service] = 0
		for i := range slices.Items {
			f.Ready[h.Service] += ready(&slices.Items[i])
		}
	}
	f.IsReadyRead = true
}

func ready(slice *discoveryv1.EndpointSlice) (n int) {
	for _, endpoint := range slice.Endpoints {
		if endpoint.Conditions.Ready == nil || *endpoint.Conditions.Ready {
			n += len(endpoint.Addresses)
		}
	}
	return n
}

// readManager reads the Deployment of the manager and the DaemonSet of the node agents.
func (r *reader) readManager(ctx context.Context, f *checkup.Facts, namespace string) {
	deployments, err := r.clients.AppsV1().Deployments(namespace).List(ctx, metav1.ListOptions{LabelSelector: managerLabel})
	if r.note("the manager's Deployment", err) && len(deployments.Items) > 0 {
		f.Manager = &deployments.Items[0]
		r.readRights(ctx, f)
	}
	set, err := r.clients.AppsV1().DaemonSets(namespace).Get(ctx, agents, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		f.IsAgentsRead = true
	} else if r.note("the node agents", err) {
		f.Agents, f.IsAgentsRead = set, true
	}
}
