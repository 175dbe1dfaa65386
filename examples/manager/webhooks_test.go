package manager_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/config"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kind"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/testing/controlplane/audit"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const (
	mutating   = "kruise-mutating-webhook-configuration"
	validating = "kruise-validating-webhook-configuration"
	crdName    = "clonesets.apps.kruise.io"
	namespace  = "default"
)

func get(ctx context.Context, url string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	if err := answer.Body.Close(); err != nil || answer.StatusCode != http.StatusOK {
		return errors.Join(err, fmt.Errorf("%s answers %s", url, answer.Status))
	}
	return nil
}

// inV1alpha1 returns a CloneSet in the version v1alpha1. The API server can store the object only if the conversion
// webhook serves.
func inV1alpha1(name string, replicas int64) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps.kruise.io/v1alpha1", "kind": "CloneSet", "metadata": map[string]any{"namespace": namespace, "name": name},
		"spec": map[string]any{
			"replicas": replicas,
			"selector": map[string]any{"matchLabels": map[string]any{"app": name}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": name}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "app", "image": "example.test/app:v1"}}},
			},
			"updateStrategy": map[string]any{"type": "InPlaceIfPossible", "partition": "80%"},
		},
	}}
}

// bundles returns the CA bundles of all objects with a bundle.
func (c *cluster) bundles(ctx context.Context) (map[string]string, error) {
	out := map[string]string{}
	var m admissionregistrationv1.MutatingWebhookConfiguration
	var v admissionregistrationv1.ValidatingWebhookConfiguration
	if err := errors.Join(c.Get(ctx, client.ObjectKey{Name: mutating}, &m), c.Get(ctx, client.ObjectKey{Name: validating}, &v)); err != nil {
		return nil, err
	}
	for _, w := range m.Webhooks {
		out[w.Name] = string(w.ClientConfig.CABundle)
	}
	for _, w := range v.Webhooks {
		out[w.Name] = string(w.ClientConfig.CABundle)
	}
	for _, name := range kind.ConvertedCRDs(kinds.All()) {
		crd := c.crd()
		crd.SetName(name)
		if err := c.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
			return nil, err
		}
		out["conversion of "+name], _, _ = unstructured.NestedString(crd.Object, "spec", "conversion", "webhook", "clientConfig", "caBundle")
	}
	return out, nil
}

func (c *cluster) crd() *unstructured.Unstructured {
	crd := &unstructured.Unstructured{}
	crd.SetAPIVersion("apiextensions.k8s.io/v1")
	crd.SetKind("CustomResourceDefinition")
	crd.SetName(crdName)
	return crd
}

func (c *cluster) untilInjected() {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		all, err := c.bundles(ctx)
		for name, bundle := range all {
			if bundle == "" {
				err = errors.Join(err, fmt.Errorf("%s has no bundle", name))
			}
		}
		return err
	})
}

func (c *cluster) patch(obj client.Object, kind types.PatchType, body string) {
	c.t.Helper()
	if err := c.Patch(c.t.Context(), obj, client.RawPatch(kind, []byte(body))); err != nil {
		c.t.Fatal(err)
	}
}

// untilRolledOut waits for a CloneSet with all Pods available at its latest revision.
func (c *cluster) untilRolledOut(name string) *v1beta1.CloneSet {
	c.t.Helper()
	cs := &v1beta1.CloneSet{}
	controlplanetest.Eventually(c.t, 3*time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, cs); err != nil {
			return err
		}
		if s := cs.Status; s.ObservedGeneration != cs.Generation || s.AvailableReplicas != *cs.Spec.Replicas || s.UpdatedReplicas != s.Replicas {
			return fmt.Errorf("status %+v", s)
		}
		return nil
	})
	return cs
}

func newCloneSet(name string, replicas int32) *v1beta1.CloneSet {
	labels := map[string]string{"app": name}
	return &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
			},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{RollingUpdate: &v1beta1.RollingUpdateCloneSet{PodUpdatePolicy: v1beta1.InPlaceIfPossible}},
		},
	}
}

// TestWebhooks runs a manager with webhooks, and checks what an operator sees, step by step.
func TestWebhooks(t *testing.T) {
	c := newCluster(t)
	if err := config.InstallCRDs(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	m := c.run("--feature-gates=StatefulSetStartOrdinal=true")
	m.untilReady()
	for _, step := range []struct {
		name string
		test func(t *testing.T, c *cluster, m *process)
	}{
		{"without configurations it says so once and runs its controllers", withoutConfigurations},
		{"configurations that come later are served", laterConfigurations},
		{"E-6 the announced manifest in the old version", announcedManifest},
		{"the announced manifests of StatefulSets", announcedStatefulSets},
		{"the announced manifests of sidecars", announcedSidecars},
		{"whatever passes is accepted", whateverPasses},
		{"Pods that mean harm are answered", harmIsAnswered},
		{"what was reset is put right", putRight},
		{"the owner of a configuration drops a webhook by server-side apply", dropWebhook},
		{"a spoiled Secret is put right", spoiledSecret},
		{"nothing is written when nothing changes", nothingWritten},
		{"LG-2 each line of the log is a JSON object", structuredLog},
	} {
		t.Run(step.name, func(t *testing.T) {
			step.test(t, c.on(t), m)
		})
	}
}

func withoutConfigurations(t *testing.T, c *cluster, m *process) {
	if err := c.Create(t.Context(), newCloneSet("stored", 2)); err != nil {
		t.Fatal(err)
	}
	c.untilRolledOut("stored")
	for _, k := range kinds.Measured() {
		if k.KeepsPods() {
			c.runs(k)
		}
	}
	for _, name := range []string{mutating, validating} {
		said := 0
		for line := range strings.Lines(m.read()) {
			if strings.Contains(line, "ObjectMissing") && strings.Contains(line, name) {
				said++
			}
		}
		if said != 1 {
			t.Errorf("%d lines say that %s is missing, want 1", said, name)
		}
	}
}

// runs creates an object of a kind, and waits until the kind's controller has created its Pods.
func (c *cluster) runs(k kind.Row) {
	c.t.Helper()
	labels := map[string]string{"app": "runs-" + k.Name()}
	object := k.Sample.Object(kind.Shape{
		Namespace: namespace, Name: "runs-" + k.Name(), Replicas: 2, Selector: &metav1.LabelSelector{MatchLabels: labels},
		MaxUnavailable: intstr.FromInt32(1), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "app", Image: "example.test/app:v1"}}},
		},
	})
	if err := c.Create(c.t.Context(), object); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		pods := 2
		if k.Sample.PerNode {
			var nodes corev1.NodeList
			if err := c.List(ctx, &nodes); err != nil {
				return err
			}
			pods = len(nodes.Items)
		}
		if !k.Sample.Settled(object, pods) {
			return fmt.Errorf("the %s is not settled: %+v", k.Kind.Kind, object)
		}
		return nil
	})
}

func laterConfigurations(t *testing.T, c *cluster, m *process) {
	c.install()
	c.untilInjected()
	m.untilReady()
	bad := newCloneSet("bad", 1)
	bad.Spec.UpdateStrategy.Type = "Sometimes"
	bad.Spec.MinReadySeconds = -1
	err := c.Create(t.Context(), bad)
	for _, text := range []string{"vcloneset.kb.io", "spec.updateStrategy.type", "Sometimes", "spec.minReadySeconds", "-1"} {
		if err == nil || !strings.Contains(err.Error(), text) {
			t.Errorf("error %v, want it to name %s", err, text)
		}
	}
}

func announcedManifest(t *testing.T, c *cluster, _ *process) {
	if err := c.Create(t.Context(), inV1alpha1("announced", 5)); err != nil {
		t.Fatal(err)
	}
	controlplanetest.Eventually(t, time.Minute, func(ctx context.Context) error {
		cs := &v1beta1.CloneSet{}
		if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "announced"}, cs); err != nil {
			return err
		}
		if cs.Status.AvailableReplicas != 5 || cs.Status.ExpectedUpdatedReplicas != 1 {
			return fmt.Errorf("status %+v, want 5 available, and 1 updated by a partition of 80%%", cs.Status)
		}
		return nil
	})
	old := inV1alpha1("announced", 5)
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(old), old); err != nil {
		t.Fatal(err)
	}
	if partition, _, _ := unstructured.NestedString(old.Object, "spec", "updateStrategy", "partition"); partition != "80%" {
		t.Errorf("partition %q in the old version", partition)
	}
}

func putRight(t *testing.T, c *cluster, _ *process) {
	before, err := c.bundles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, reset := range []func(){
		func() {
			c.patch(&admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: mutating}},
				types.JSONPatchType, `[{"op":"remove","path":"/webhooks/0/clientConfig/caBundle"}]`)
		},
		func() {
			c.patch(&admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: validating}},
				types.JSONPatchType, `[{"op":"replace","path":"/webhooks/0/clientConfig/url","value":"https://localhost:1/validate-apps-kruise-io-cloneset"}]`)
		},
		func() {
			c.patch(c.crd(), types.JSONPatchType, `[{"op":"remove","path":"/spec/conversion/webhook/clientConfig/caBundle"}]`)
		},
	} {
		reset()
		began := time.Now()
		controlplanetest.Eventually(t, 5*time.Second, func(ctx context.Context) error {
			now, err := c.bundles(ctx)
			if err != nil {
				return err
			}
			for name, bundle := range before {
				if now[name] != bundle {
					return fmt.Errorf("%s is not put right", name)
				}
			}
			return c.Create(ctx, inV1alpha1("probe", 0), client.DryRunAll)
		})
		t.Logf("put right after %v", time.Since(began).Round(time.Millisecond))
	}
}

func dropWebhook(t *testing.T, c *cluster, _ *process) {
	entry := func(name string) map[string]any {
		return map[string]any{
			"name": name, "admissionReviewVersions": []any{"v1"}, "sideEffects": "None", "failurePolicy": "Fail",
			"clientConfig": map[string]any{"service": map[string]any{"namespace": "kruise-system", "name": "kruise-webhook-service", "path": "/mutate-later"}},
			"rules": []any{map[string]any{
				"operations": []any{"CREATE"}, "apiGroups": []any{"later.example.com"}, "apiVersions": []any{"v1"}, "resources": []any{"laters"},
			}},
		}
	}
	apply := func(names ...string) error {
		var entries []any
		for _, name := range names {
			entries = append(entries, entry(name))
		}
		owned := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration",
			"metadata": map[string]any{"name": mutating}, "webhooks": entries,
		}}
		return c.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(owned), client.FieldOwner("another-owner"))
	}
	if err := apply("one.example.com", "two.example.com"); err != nil {
		t.Fatal(err)
	}
	c.untilInjected()
	// The webhooks of the test are called by URL, so a client that applies a webhook would have to apply the URL,
	// too. The test therefore applies an empty list, which removes both webhooks.
	if err := apply(); err != nil {
		t.Fatalf("dropping both webhooks: %v", err)
	}
	all, err := c.bundles(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for name := range all {
		if strings.HasSuffix(name, ".example.com") {
			t.Errorf("%s is still there", name)
		}
	}
}

func spoiledSecret(t *testing.T, c *cluster, m *process) {
	for name, spoil := range map[string]string{
		"garbage":    `{"stringData":{"cert.pem":"garbage","tls.crt":"garbage"}}`,
		"a key gone": `{"data":{"key.pem":null,"tls.key":null}}`,
		"no CA":      `{"stringData":{"ca-cert.pem":"","ca-key.pem":"not a key"}}`,
		"all gone":   `{"data":null}`,
	} {
		offset := c.settledLog(t)
		c.patch(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-webhook-certs"}}, types.MergePatchType, spoil)
		controlplanetest.Eventually(t, 15*time.Second, func(ctx context.Context) error {
			data, err := c.secret(ctx)
			if err != nil {
				return err
			}
			if _, err := tls.X509KeyPair(data["cert.pem"], data["key.pem"]); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
			return errors.Join(get(ctx, m.health+"/readyz"), c.Create(ctx, inV1alpha1("probe", 0), client.DryRunAll))
		})
		c.settledLog(t)
		requests, _, err := audit.Read(c.cp.AuditLog(), offset, "kruise-manager/")
		if err != nil {
			t.Fatal(err)
		}
		writes := 0
		for _, r := range requests {
			if r.Resource == "secrets" && r.IsWrite() {
				writes++
			}
		}
		if writes == 0 || writes > 4 {
			t.Errorf("%s: %d writes to the Secret, want a few", name, writes)
		}
	}
}

func structuredLog(t *testing.T, _ *cluster, m *process) {
	for line := range strings.Lines(m.read()) {
		var entry struct {
			TS          *float64
			Caller, Msg *string
			V           *int
			Err         *string
		}
		if err := json.Unmarshal([]byte(line), &entry); err != nil || entry.TS == nil || entry.Caller == nil || entry.Msg == nil || entry.V == nil && entry.Err == nil {
			t.Errorf("line %q: %v", line, err)
		}
	}
}

// nothingWritten checks that the managers write nothing for a while if nothing changes.
func nothingWritten(t *testing.T, c *cluster, _ *process) {
	offset := c.settledLog(t)
	deadline := time.Now().Add(10 * time.Second)
	var writes []string
	controlplanetest.Eventually(t, 20*time.Second, func(context.Context) error {
		requests, _, err := audit.Read(c.cp.AuditLog(), offset, "kruise-manager/")
		if err != nil {
			return err
		}
		writes = nil
		for _, r := range requests {
			if r.IsWrite() && r.Resource != "leases" {
				writes = append(writes, r.String()+" "+r.Name)
			}
		}
		if time.Now().Before(deadline) && len(writes) == 0 {
			return errors.New("the time is not over")
		}
		return nil
	})
	if len(writes) > 0 {
		t.Errorf("written: %v", writes)
	}
}

// settledLog returns the end of the audit log when no manager has written anything but Leases for a second.
func (c *cluster) settledLog(t *testing.T) int64 {
	t.Helper()
	var offset int64
	since := time.Now()
	controlplanetest.Eventually(t, 30*time.Second, func(context.Context) error {
		requests, next, err := audit.Read(c.cp.AuditLog(), offset, "kruise-manager/")
		if err != nil {
			return err
		}
		offset = next
		if slices.ContainsFunc(requests, func(r audit.Request) bool { return r.IsWrite() && r.Resource != "leases" }) {
			since = time.Now()
		}
		if time.Since(since) < time.Second {
			return errors.New("still writing")
		}
		return nil
	})
	return offset
}

// load creates objects at a steady rate, and records failures with their times.
type load struct {
	mu       sync.Mutex
	created  int
	failures []time.Time
	errs     []error
}

func (c *cluster) load(perSecond int) (l *load, stop func()) {
	l = &load{}
	ctx, cancel := context.WithCancel(c.t.Context())
	var group sync.WaitGroup
	group.Go(func() {
		tick := time.NewTicker(time.Second / time.Duration(perSecond))
		defer tick.Stop()
		for i := 0; ; i++ {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			group.Go(func() {
				// The requests are dry runs, so that the controllers do not have to work on thousands of objects.
				err := c.Create(ctx, inV1alpha1(fmt.Sprint("load-", i), 0), client.DryRunAll)
				l.mu.Lock()
				defer l.mu.Unlock()
				switch {
				case ctx.Err() != nil:
				case err != nil:
					l.failures, l.errs = append(l.failures, time.Now()), append(l.errs, err)
				default:
					l.created++
				}
			})
		}
	})
	stop = sync.OnceFunc(func() { cancel(); group.Wait() })
	c.t.Cleanup(stop)
	return l, stop
}

func (c *cluster) secret(ctx context.Context) (map[string][]byte, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: "kruise-system", Name: "kruise-webhook-certs"}, secret)
	return secret.Data, err
}

// TestRotationUnderLoad: the CA is replaced while three managers serve and objects are created.
func TestRotationUnderLoad(t *testing.T) {
	c := newCluster(t)
	c.install()
	for range 3 {
		c.run("--webhook-cert-overlap=3s").untilReady()
	}
	c.untilInjected()
	before, err := c.secret(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	l, stop := c.load(20)
	c.patch(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "kruise-system", Name: "kruise-webhook-certs"}},
		types.MergePatchType, `{"stringData":{"rotate":"now"}}`)
	controlplanetest.Eventually(t, 2*time.Minute, func(ctx context.Context) error {
		now, err := c.secret(ctx)
		if err != nil {
			return err
		}
		if string(now["ca-cert.pem"]) == string(before["ca-cert.pem"]) || len(now["old-ca-certs.pem"])+len(now["next-ca-cert.pem"])+len(now["rotate"]) > 0 {
			return errors.New("the rotation is not over")
		}
		return nil
	})
	stop()
	if len(l.errs) > 0 {
		t.Errorf("%d of %d requests failed, the first: %v", len(l.errs), l.created+len(l.errs), l.errs[0])
	}
	t.Logf("%d objects created during the rotation", l.created)
}

// TestReplicasComeAndGo: three managers run a rollout, the leader is killed in the middle, and then the remaining
// managers are replaced as a Deployment replaces its Pods.
func TestReplicasComeAndGo(t *testing.T) {
	const replicas = 20
	c := newCluster(t)
	c.install()
	start := func() *process {
		m := c.run("--leader-election-lease-duration=4s", "--leader-election-renew-deadline=3s", "--leader-election-retry-period=1s")
		m.untilReady()
		return m
	}
	managers := []*process{start(), start(), start()}
	c.untilInjected()
	if err := c.Create(t.Context(), newCloneSet("web", replicas)); err != nil {
		t.Fatal(err)
	}
	c.untilRolledOut("web")
	all := false // the watch first sends the existing objects one by one
	recorder := controllertest.Watch(t, c, namespace, func(pods map[types.UID]*corev1.Pod) {
		n := len(pods)
		if all = all || n == replicas; all && n != replicas {
			t.Errorf("%d Pods, want %d at each moment of an update in place", n, replicas)
		}
	})
	l, stop := c.load(20)
	c.patch(newCloneSet("web", replicas), types.MergePatchType,
		`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.test/app:v2"}]}}}}`)
	controlplanetest.Eventually(t, 30*time.Second, func(context.Context) error {
		if len(recorder.Events()) < 20 {
			return errors.New("the rollout has not begun")
		}
		return nil
	})
	killed := time.Now()
	for _, m := range managers {
		if strings.Contains(m.read(), "Successfully acquired lease") {
			m.end(syscall.SIGKILL)
		}
	}
	c.untilRolledOut("web")
	t.Logf("rolled out %v after the kill", time.Since(killed).Round(time.Millisecond))
	for _, m := range managers {
		start()
		m.end(syscall.SIGTERM)
	}
	c.patch(newCloneSet("web", replicas), types.MergePatchType,
		`{"spec":{"template":{"spec":{"containers":[{"name":"app","image":"example.test/app:v3"}]}}}}`)
	c.untilRolledOut("web")
	stop()
	for i, at := range l.failures {
		if at.Sub(killed) > 2*time.Second || at.Before(killed) {
			t.Errorf("a request failed %v after the leader was killed: %v", at.Sub(killed), l.errs[i])
		}
	}
	t.Logf("%d objects created, %d refused", l.created, len(l.errs))
	var pods corev1.PodList
	if err := c.List(t.Context(), &pods, client.InNamespace(namespace), client.MatchingLabels{"app": "web"}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range pods.Items {
		if pod.Status.ContainerStatuses[0].Image != "example.test/app:v3" || pod.Status.ContainerStatuses[0].RestartCount != 2 {
			t.Errorf("Pod %s runs %s after %d restarts", pod.Name, pod.Status.ContainerStatuses[0].Image, pod.Status.ContainerStatuses[0].RestartCount)
		}
	}
}

// TestPortIsTaken: objects that are stored as v1alpha1 reach the caches only through the webhooks. A manager whose
// port is in use exits, and does not wait for the caches.
func TestPortIsTaken(t *testing.T) {
	c := newCluster(t)
	c.storedInV1alpha1("old")
	taken, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = taken.Close() })
	port := taken.Addr().(*net.TCPAddr).Port
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, c.binary, "--kubeconfig", c.cp.Kubeconfig(), "--metrics-addr=0", "--health-probe-addr=0", "--enable-pprof=false")
	cmd.Env = append(os.Environ(), "WEBHOOK_HOST=localhost", fmt.Sprintf("WEBHOOK_PORT=%d", port))
	out, err := cmd.CombinedOutput()
	if exit := new(exec.ExitError); !errors.As(err, &exit) || ctx.Err() != nil || !strings.Contains(string(out), fmt.Sprintf("localhost:%d", port)) && !strings.Contains(string(out), fmt.Sprintf("127.0.0.1:%d", port)) {
		t.Errorf("the manager ends with %v, and says\n%s", err, tail(string(out), 3000))
	}
}
