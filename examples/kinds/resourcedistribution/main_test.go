package resourcedistribution_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// This package has a control plane of its own, because copies are created in all namespaces.
var env = controlplanetest.New(controlplane.Options{Nodes: controlplane.NoNodes, AuditLog: "audit.log"})

func TestMain(m *testing.M) { os.Exit(env.Main(m)) }

const (
	minute = time.Minute
	agent  = "kruise-manager/test resourcedistribution-controller"
)

// cluster is a test's client of the control plane. The names of the test's objects begin with the test's own prefix.
type cluster struct {
	client.WithWatch
	t      testing.TB
	cp     *controlplane.ControlPlane
	prefix string
}

// idle returns a cluster without the controller.
func idle(t testing.TB) *cluster {
	t.Helper()
	cp := env.Start(t)
	return &cluster{controllertest.Client(t, cp), t, cp, strings.ToLower(strings.NewReplacer("/", "-", "_", "-").Replace(t.Name()))}
}

// start returns a cluster with the controller running.
func start(t testing.TB) *cluster {
	t.Helper()
	c := idle(t)
	c.run()
	return c
}

func (c *cluster) run() (stop func()) {
	c.t.Helper()
	gates := apps.ResolveGates(map[apps.Gate]bool{apps.GateResourceDistribution: true})
	return controllertest.Manager(c.t, c.cp, manager.Options{Gates: gates, Kinds: distributor(), Loops: []kinds.Loop{}})
}

// distributor returns the kind.Row of ResourceDistribution.
func distributor() (out []kind.Row) {
	for _, k := range kinds.All() {
		if k.Kind.Kind == "ResourceDistribution" {
			out = append(out, k)
		}
	}
	return out
}

// namespaces creates namespaces with the labels, whose names begin with the test's prefix. The namespaces are deleted
// at the end of the test.
func (c *cluster) namespaces(labels map[string]string, suffixes ...string) (names []string) {
	c.t.Helper()
	for _, suffix := range suffixes {
		namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.prefix + "-" + suffix, Labels: labels}}
		if err := c.Create(c.t.Context(), namespace); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), namespace) })
		names = append(names, namespace.Name)
	}
	return names
}

// resource is a ConfigMap or Secret as users write it in a ResourceDistribution.
type resource map[string]any

func configMap(name string, data map[string]string) resource {
	return resource{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": data}
}

func raw(t testing.TB, r resource) []byte {
	t.Helper()
	encoded, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	return encoded
}

func list(namespaces ...string) (out v1beta1.ResourceDistributionTargetNamespaces) {
	for _, namespace := range namespaces {
		out.List = append(out.List, v1beta1.ResourceDistributionNamespace{Name: namespace})
	}
	return out
}

func selects(key, value string) metav1.LabelSelector {
	return metav1.LabelSelector{MatchLabels: map[string]string{key: value}}
}

// distribute creates a ResourceDistribution with the test's name.
func (c *cluster) distribute(r resource, targets v1beta1.ResourceDistributionTargets) *v1beta1.ResourceDistribution {
	c.t.Helper()
	obj := &v1beta1.ResourceDistribution{ObjectMeta: metav1.ObjectMeta{Name: c.prefix}}
	obj.Spec.Resource.Raw, obj.Spec.Targets = raw(c.t, r), targets
	if err := c.Create(c.t.Context(), obj); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { _ = c.Delete(context.WithoutCancel(c.t.Context()), obj) })
	return obj
}

// change edits an object.
func change[O client.Object](c *cluster, obj O, edit func(O)) O {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		edit(obj)
		return c.Update(ctx, obj)
	})
	return obj
}

// counts waits until the status has the given numbers of wanted and existing copies.
func (c *cluster) counts(obj *v1beta1.ResourceDistribution, desired, succeeded int32) *v1beta1.ResourceDistribution {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
			return err
		}
		s := &obj.Status
		if s.ObservedGeneration != obj.Generation || s.Desired != desired || s.Succeeded != succeeded || s.Failed != desired-succeeded {
			return fmt.Errorf("generation %d, status %+v", obj.Generation, *s)
		}
		return nil
	})
	return obj
}

// configMap waits until want returns nil for a ConfigMap, and returns the ConfigMap.
func (c *cluster) configMap(namespace, name string, want func(*corev1.ConfigMap) error) *corev1.ConfigMap {
	c.t.Helper()
	found := &corev1.ConfigMap{}
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, found); err != nil {
			return err
		}
		if err := want(found); err != nil {
			return fmt.Errorf("%w: %+v", err, found)
		}
		return nil
	})
	return found
}

// value returns a check that a key has a value.
func value(key, want string) func(*corev1.ConfigMap) error {
	return func(found *corev1.ConfigMap) error {
		if got := found.Data[key]; got != want {
			return fmt.Errorf("%s is %q, want %q", key, got, want)
		}
		return nil
	}
}

// gone waits until a ConfigMap no longer exists.
func (c *cluster) gone(namespace, name string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, minute, func(ctx context.Context) error {
		err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("ConfigMap %s/%s: %w", namespace, name, err)
	})
}

// failing returns the namespaces of the True conditions, by type.
func failing(obj *v1beta1.ResourceDistribution) map[string][]string {
	out := map[string][]string{}
	for _, condition := range obj.Status.Conditions {
		if condition.Status == v1beta1.ResourceDistributionConditionTrue {
			out[string(condition.Type)] = condition.FailedNamespaces
		}
	}
	return out
}

// writes returns the controller's writes to ConfigMaps and Secrets since an offset in the audit log.
func (c *cluster) writes(since int64) (out []string) {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), since, agent)
	for _, r := range requests {
		if r.IsWrite() && (r.Resource == "configmaps" || r.Resource == "secrets") {
			out = append(out, fmt.Sprintf("%s %s %s/%s %d", r.Verb, r.Resource, r.Namespace, r.Name, r.Code))
		}
	}
	return out
}

func sorted(list []string) []string {
	slices.Sort(list)
	return list
}
