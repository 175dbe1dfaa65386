package install_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/prometheus/client_golang/prometheus"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kinds"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

const (
	account    = "kruise-manager"
	serviceUsr = "system:serviceaccount:" + namespace + ":" + account
	// foreign is a namespace to which the test sends a request with the manager's token. The API server must refuse the
	// request.
	foreign = "kube-system"
)

// right is a single permission of a rule. An empty namespace or name means any.
type right struct{ verb, group, resource, namespace, name string }

func (r right) String() string {
	text := strings.Join([]string{r.verb, strings.TrimPrefix(r.group+"/"+r.resource, "/")}, " ")
	if r.name != "" {
		text += " " + r.name
	}
	return text
}

// covers reports whether this right allows a request.
func (r right) covers(q request) bool {
	ofAny := r.group == "*" && strings.HasPrefix(r.resource, "*/") && strings.HasSuffix(q.resource, r.resource[1:])
	return r.verb == q.verb && (ofAny || r.group == q.group && r.resource == q.resource) &&
		(r.namespace == "" || r.namespace == q.namespace) && (r.name == "" || r.name == q.name)
}

// request is a line of the audit log.
type request struct {
	verb, uri                        string
	group, resource, namespace, name string
	code                             int
}

// unused returns the rights of the manager that this test does not use, each with the reason why the manager needs
// the right.
func unused() map[string]string {
	const (
		unanswered = "read when the answer to a write was lost"
		neverSent  = "never sent: the API server asks for it when an object is created that blocks its owner's deletion, as this one does"
		sent       = "an API server that cannot send the list with the watch is asked for it first"
		overtaken  = "read when somebody else has changed it before the manager's patch"
	)
	out := map[string]string{
		"get batch/jobs":        unanswered + ", or when the name of a run is taken",
		"list apps/deployments": sent, "list apps/replicasets": sent, "list apps/daemonsets": sent,
		"list configmaps kruise-configuration": sent,
		"list namespaces":                      sent,
		"get apps/deployments":                 unanswered + ", and for numbers at paths named by a user",
		"get apps/replicasets":                 "read when the cache does not have the controller of a new Pod yet",
		"get persistentvolumeclaims":           unanswered,
		"get apps/controllerrevisions":         unanswered + ", or when the name of a new one is taken",
		"list nodes":                           sent,
		"get admissionregistration.k8s.io/mutatingwebhookconfigurations kruise-mutating-webhook-configuration":     overtaken,
		"get admissionregistration.k8s.io/validatingwebhookconfigurations kruise-validating-webhook-configuration": overtaken,
	}
	for _, k := range kinds.All() {
		of := k.Kind.Group + "/" + k.Resource
		if k.Converted {
			out["get apiextensions.k8s.io/customresourcedefinitions "+k.Resource+"."+k.Kind.Group] = overtaken
		}
		if slices.Contains(k.Rights.Objects, "get") {
			out["get "+of] = unanswered + ", or where the cache does not have an object that another one names"
		}
		if k.Rights.Owns {
			out["update "+of+"/finalizers"] = neverSent
		}
	}
	return out
}

// TestManagerHasTheRightsThatItUses runs the manager with the token of its ServiceAccount, on an API server that
// enforces the ServiceAccount's rights. The manager does all its work on CloneSets, StatefulSets, DaemonSets,
// BroadcastJobs, single Pods, their sidecars and certificates. The manager lacks no right, and uses each right.
func TestManagerHasTheRightsThatItUses(t *testing.T) {
	c := fresh(t)
	c.apply("-k", "examples/config/default")
	c.apply("-k", "examples/config/imagepulljob")
	objects := parse(t, kustomize(t))
	c.untilRunning(objects)
	since := auditSize(t)

	own := c.asManager()
	stop := runManager(t, own, func(o *manager.Options) { o.Gates[apps.GateImagePullJob] = true })
	defer c.reportMissing(since) // the reason why a wait takes too long
	ns := env.Namespace(t)
	c.liveNumbered(ns)
	c.liveDaemons(ns)
	c.liveJobs(ns)
	c.liveSchedules(ns)
	c.live(ns)
	c.liveSidecars(ns, own)
	c.liveRequests(ns)
	c.liveLoops(ns, since)
	c.liveSidecarSets(ns)
	c.livePodStates(ns)
	c.liveBudgets(ns)
	c.liveSubsets(ns)
	c.liveSpreads(ns)
	c.liveContainers(ns)
	c.liveImages(ns)
	c.liveProbes(ns)
	stop()

	// This request, which the API server must refuse, shows that the audit log contains refusals, and that the token
	// is the token of the manager.
	other, err := kubernetes.NewForConfig(own)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := other.CoreV1().ServiceAccounts(foreign).List(t.Context(), metav1.ListOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("the manager lists ServiceAccounts: %v", err)
	}
	var requests []request
	controlplanetest.Eventually(t, 30*time.Second, func(context.Context) error {
		requests = readAudit(t, since)
		if !slices.ContainsFunc(requests, func(q request) bool { return q.code == 403 && q.namespace == foreign }) {
			return errors.New("the audit log is not complete yet")
		}
		return nil
	})
	excuses, needless := unused(), unused()
	for _, r := range rights(t, objects) {
		used := slices.ContainsFunc(requests, func(q request) bool { return q.code < 300 && r.covers(q) })
		if _, excused := excuses[r.String()]; !used && !excused {
			t.Errorf("%s: never used", r)
		}
		delete(needless, r.String())
	}
	for name := range needless {
		t.Errorf("%s: not granted, although the test says why it is", name)
	}
}

// reportMissing fails the test for each right that the manager lacked.
func (c *cluster) reportMissing(since int64) {
	c.t.Helper()
	missing := map[right]string{}
	for _, q := range readAudit(c.t, since) {
		if q.code == 403 && q.namespace != foreign {
			missing[right{verb: q.verb, group: q.group, resource: q.resource}] = q.uri
		}
	}
	for r, uri := range missing {
		c.t.Errorf("a right is missing: %s, for instance on %s", r, uri)
	}
}

// rights returns the manager's granted rights.
func rights(t testing.TB, objects map[string]*unstructured.Unstructured) []right {
	t.Helper()
	var out []right
	for _, kind := range []string{"ClusterRole", "Role"} {
		role := as[rbacv1.ClusterRole](t, find(t, objects, kind, "kruise-manager-role"))
		for _, rule := range role.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{""}
			}
			for _, group := range rule.APIGroups {
				for _, res := range rule.Resources {
					for _, verb := range rule.Verbs {
						for _, name := range names {
							out = append(out, right{verb, group, res, role.Namespace, name})
						}
					}
				}
			}
		}
	}
	return out
}

func auditSize(t testing.TB) int64 {
	t.Helper()
	info, err := os.Stat(env.Start(t).AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// readAudit returns the requests of the manager after an offset of the audit log.
func readAudit(t testing.TB, since int64) []request {
	t.Helper()
	raw, err := os.ReadFile(env.Start(t).AuditLog())
	if err != nil {
		t.Fatal(err)
	}
	var out []request
	lines := bufio.NewScanner(bytes.NewReader(raw[since:bytes.LastIndexByte(raw, '\n')]))
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var e struct {
			Verb, RequestURI string
			User             struct{ Username string }
			ObjectRef        struct{ APIGroup, Resource, Subresource, Namespace, Name string }
			ResponseStatus   struct{ Code int }
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatal(err)
		}
		if e.User.Username != serviceUsr {
			continue
		}
		q := request{
			verb: e.Verb, uri: e.RequestURI, group: e.ObjectRef.APIGroup, resource: e.ObjectRef.Resource,
			namespace: e.ObjectRef.Namespace, name: e.ObjectRef.Name, code: e.ResponseStatus.Code,
		}
		if e.ObjectRef.Subresource != "" {
			q.resource += "/" + e.ObjectRef.Subresource
		}
		out = append(out, q)
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

// asManager returns a client configuration with the rights of the manager's ServiceAccount.
func (c *cluster) asManager() *rest.Config {
	c.t.Helper()
	admin := env.Start(c.t).Config()
	clientset, err := kubernetes.NewForConfig(admin)
	if err != nil {
		c.t.Fatal(err)
	}
	token, err := clientset.CoreV1().ServiceAccounts(namespace).CreateToken(c.t.Context(), account, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	own := rest.AnonymousClientConfig(admin)
	own.BearerToken = token.Status.Token
	return own
}

// runManager runs the manager until a call of stop or the end of the test, with its webhooks at a URL on this machine.
func runManager(t testing.TB, config *rest.Config, changes ...func(*manager.Options)) (stop func()) {
	t.Helper()
	gates, err := manager.ParseGates("InPlaceWorkloadVerticalScaling=true,StatefulSetAutoResizePVCGate=true")
	if err != nil {
		t.Fatal(err)
	}
	webhooks, err := manager.WebhooksFromEnv(func(name string) string {
		return map[string]string{"WEBHOOK_HOST": "localhost", "WEBHOOK_PORT": strconv.Itoa(freePort(t))}[name]
	})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	var said []string
	logger := funcr.New(func(prefix, args string) {
		mu.Lock()
		defer mu.Unlock()
		said = append(said, prefix+" "+args)
	}, funcr.Options{})
	t.Cleanup(func() {
		mu.Lock()
		defer mu.Unlock()
		if t.Failed() {
			t.Logf("the manager's log:\n%s", strings.Join(said, "\n"))
		}
	})
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(t.Context()), logger))
	done := make(chan error, 1)
	options := manager.Options{
		Gates: gates, Version: "test", Registry: prometheus.NewRegistry(), Webhooks: &webhooks,
		LeaderElection: &manager.LeaderElection{Namespace: namespace, ID: "kruise-manager"},
	}
	for _, change := range changes {
		change(&options)
	}
	go func() { done <- manager.Run(ctx, config, options) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("manager: %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func freePort(t testing.TB) int {
	t.Helper()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().(*net.TCPAddr).Port
}

// live makes the controller of CloneSets use all of its rights.
func (c *cluster) live(ns string) {
	w := &workload{cluster: c, key: client.ObjectKey{Namespace: ns, Name: "web"}}
	w.create(4, 24)                                                                                        // each volume can be used only once
	w.change(func(cs *v1beta1.CloneSet) { w.app(cs).Image = "example.test/app:v2" })                       // in place
	w.change(func(cs *v1beta1.CloneSet) { w.app(cs).Image = "example.test/app:v1" })                       // back to an existing revision
	w.change(func(cs *v1beta1.CloneSet) { w.app(cs).Resources.Requests[corev1.ResourceCPU] = cpu("20m") }) // in place as well
	recreated := w.pods()
	w.change(func(cs *v1beta1.CloneSet) { w.app(cs).Env = []corev1.EnvVar{{Name: "A", Value: "b"}} })
	for _, pod := range w.pods() {
		if slices.ContainsFunc(recreated, func(old corev1.Pod) bool { return old.UID == pod.UID }) {
			c.t.Errorf("Pod %s has not been recreated", pod.Name)
		}
	}
	w.change(scale(2))
	// The API server combines two equal events into one event with a count.
	for range 2 {
		w.change(scale(3))
		w.change(func(cs *v1beta1.CloneSet) {
			scale(2)(cs)
			cs.Spec.ScaleStrategy.PodsToDelete = []string{w.pods()[0].Name}
		})
	}
	w.loseOne()
	c.spoilCertificates()
	w.remove()
}

// workload is a CloneSet with claims.
type workload struct {
	*cluster

	key client.ObjectKey
}

func cpu(quantity string) resource.Quantity { return resource.MustParse(quantity) }

func scale(n int32) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { cs.Spec.Replicas = &n }
}

func (w *workload) app(cs *v1beta1.CloneSet) *corev1.Container {
	return &cs.Spec.Template.Spec.Containers[0]
}

// create creates the CloneSet and volumes for its claims.
func (w *workload) create(replicas int32, volumes int) {
	w.t.Helper()
	class := w.key.Namespace
	storage := corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}
	modes := []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}
	for i := range volumes {
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", class, i)},
			Spec: corev1.PersistentVolumeSpec{
				Capacity: storage, AccessModes: modes, StorageClassName: class, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
				PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			},
		}
		if err := w.Create(w.t.Context(), pv); err != nil {
			w.t.Fatal(err)
		}
		w.t.Cleanup(func() { _ = w.Delete(context.WithoutCancel(w.t.Context()), pv) })
	}
	labels := map[string]string{"app": w.key.Name}
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: w.key.Name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels}, RevisionHistoryLimit: ptr.To[int32](1),
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec: corev1.PodSpec{
					TerminationGracePeriodSeconds: ptr.To[int64](0),
					// With this constraint, the controller reads Nodes when it chooses Pods to delete.
					TopologySpreadConstraints: []corev1.TopologySpreadConstraint{{
						MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.ScheduleAnyway,
						LabelSelector: &metav1.LabelSelector{MatchLabels: labels},
					}},
					Containers: []corev1.Container{{
						Name: "app", Image: "example.test/app:v1", VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
						Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: cpu("10m")}},
					}},
				},
			},
			VolumeClaimTemplates: []corev1.PersistentVolumeClaim{{
				ObjectMeta: metav1.ObjectMeta{Name: "data"},
				Spec: corev1.PersistentVolumeClaimSpec{
					AccessModes: modes, StorageClassName: &class, Resources: corev1.VolumeResourceRequirements{Requests: storage},
				},
			}},
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{
				Type: v1beta1.RollingUpdate,
				RollingUpdate: &v1beta1.RollingUpdateCloneSet{
					PodUpdatePolicy: v1beta1.InPlaceIfPossible, MaxUnavailable: ptr.To(intstr.FromString("50%")),
				},
			},
		},
	}
	// The API server refuses the creation until the manager has written its address to the webhook configurations.
	controlplanetest.Eventually(w.t, time.Minute, func(ctx context.Context) error { return w.Create(ctx, cs.DeepCopy()) })
	w.untilSettled()
}

// change edits the CloneSet and waits until the CloneSet has settled.
func (w *workload) change(edit func(*v1beta1.CloneSet)) {
	w.t.Helper()
	controlplanetest.Eventually(w.t, 30*time.Second, func(ctx context.Context) error {
		cs := &v1beta1.CloneSet{}
		if err := w.Get(ctx, w.key, cs); err != nil {
			return err
		}
		edit(cs)
		return w.Update(ctx, cs)
	})
	w.untilSettled()
}

func (w *workload) untilSettled() {
	w.t.Helper()
	controlplanetest.Eventually(w.t, 2*time.Minute, func(ctx context.Context) error {
		cs := &v1beta1.CloneSet{}
		if err := w.Get(ctx, w.key, cs); err != nil {
			return err
		}
		s, want := cs.Status, *cs.Spec.Replicas
		if s.ObservedGeneration != cs.Generation || s.Replicas != want || s.AvailableReplicas != want || s.UpdatedAvailableReplicas != want ||
			len(cs.Spec.ScaleStrategy.PodsToDelete) > 0 {
			return fmt.Errorf("generation %d, podsToDelete %v, status %+v", cs.Generation, cs.Spec.ScaleStrategy.PodsToDelete, s)
		}
		return nil
	})
}

// pods returns the Pods that are not being deleted.
func (w *workload) pods() []corev1.Pod {
	w.t.Helper()
	var list corev1.PodList
	if err := w.List(w.t.Context(), &list, client.InNamespace(w.key.Namespace), client.MatchingLabels{"app": w.key.Name}); err != nil {
		w.t.Fatal(err)
	}
	return slices.DeleteFunc(list.Items, func(pod corev1.Pod) bool { return pod.DeletionTimestamp != nil })
}

// loseOne makes a Pod end, and waits until the Pod's claim has the Pod as its owner.
func (w *workload) loseOne() {
	w.t.Helper()
	lost := w.pods()[0]
	body := fmt.Sprintf(`{"metadata":{"annotations":{%q:"Evicted"}}}`, controlplane.Fail)
	if err := w.Patch(w.t.Context(), lost.DeepCopy(), client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		w.t.Fatal(err)
	}
	controlplanetest.Eventually(w.t, time.Minute, func(ctx context.Context) error {
		var claims corev1.PersistentVolumeClaimList
		if err := w.List(ctx, &claims, client.InNamespace(w.key.Namespace)); err != nil {
			return err
		}
		for i := range claims.Items {
			for _, owner := range claims.Items[i].OwnerReferences {
				if owner.UID == lost.UID {
					return nil
				}
			}
		}
		return errors.New("the lost Pod has no claim")
	})
	w.untilSettled()
}

// remove deletes the CloneSet while the manager runs, because the API server calls the manager's webhook.
func (w *workload) remove() {
	w.t.Helper()
	cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: w.key.Namespace, Name: w.key.Name}}
	controlplanetest.Eventually(w.t, time.Minute, func(ctx context.Context) error {
		if err := w.Delete(ctx, cs); !apierrors.IsNotFound(err) {
			return fmt.Errorf("deleting the CloneSet: %w", err)
		}
		return nil
	})
}

// spoilCertificates destroys the content of the Secret with the certificates, so that the manager writes the Secret
// again.
func (c *cluster) spoilCertificates() {
	c.t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "kruise-webhook-certs"}}
	if err := c.Get(c.t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
		c.t.Fatal(err)
	}
	spoilt := secret.DeepCopy()
	spoilt.Data["cert.pem"] = []byte("garbage")
	if err := c.Update(c.t.Context(), spoilt); err != nil {
		c.t.Fatal(err)
	}
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		if err := c.Get(ctx, client.ObjectKeyFromObject(secret), secret); err != nil {
			return err
		}
		if bytes.Equal(secret.Data["cert.pem"], spoilt.Data["cert.pem"]) {
			return errors.New("the certificate is still garbage")
		}
		return nil
	})
}
