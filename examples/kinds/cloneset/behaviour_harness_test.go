package cloneset_test

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/kinds/cloneset"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// Test cases mostly wait for the cluster, so more cases run in parallel than cores exist. A -parallel flag on the
// command line still takes precedence, because flags are parsed later.
func init() {
	log.SetLogger(logr.Discard()) // for logs from outside the manager: without a logger controller-runtime complains at length
	testing.Init()
	if err := flag.Set("test.parallel", "12"); err != nil {
		panic(err)
	}
}

// behaviour is a test case for a single statement about the objects that the controller writes. Cases share a manager
// and a namespace and run in parallel; each case uses CloneSets of its own.
type behaviour struct {
	name string
	test func(*cluster)
}

// behave runs the cases with a single manager. A reconciliation that returns an error fails the test, unless the
// error contains an expected text.
func behave(t *testing.T, gates string, expected []string, cases []behaviour) {
	t.Helper()
	t.Parallel()
	c := idle(t)
	c.manage(gates, expected...)
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			tc.test(c.on(t))
		})
	}
}

// on returns a copy of the cluster that reports failures to another test.
func (c *cluster) on(t testing.TB) *cluster {
	other := *c
	other.t = t
	return &other
}

// moveOut changes the case's namespace to a new namespace, and runs the controllers there.
func (c *cluster) moveOut() {
	c.t.Helper()
	c.namespace = env.Namespace(c.t)
	c.manage(c.gates, c.expected...)
}

// manage runs the controllers in the cluster's namespace until stop is called or the test ends. Every log line at level
// error fails the test unless the line holds an expected text.
func (c *cluster) manage(gates string, expected ...string) (stop func()) {
	c.t.Helper()
	c.gates, c.expected = gates, expected
	parsed, err := manager.ParseGates(gates)
	if err != nil {
		c.t.Fatal(err)
	}
	var mu sync.Mutex
	var unexpected []string
	logger := funcr.New(func(prefix, args string) {
		allowed := func(text string) bool { return strings.Contains(args, text) }
		// When the manager stops, the contexts of its requests are cancelled. The namespace of an earlier test may be
		// deleted before the objects in it.
		ending := allowed("context canceled") || (allowed(`namespaces \"`) && allowed("not found"))
		// On a busy machine, the manager starts before the API server has listed the installed kinds.
		late := allowed("it is not known which CustomResourceDefinitions are installed")
		if strings.Contains(args, `"error"=`) && !ending && !late && !slices.ContainsFunc(expected, allowed) {
			mu.Lock()
			defer mu.Unlock()
			unexpected = append(unexpected, prefix+" "+args)
		}
	}, funcr.Options{})
	ctx, cancel := context.WithCancel(logr.NewContext(context.WithoutCancel(c.t.Context()), logger))
	done := make(chan error, 1)
	go func() {
		done <- manager.Run(ctx, c.cp.Config(), manager.Options{
			Namespace: c.namespace, Gates: parsed, Version: "test", Registry: prometheus.NewRegistry(),
		})
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.t.Errorf("manager: %v", err)
		}
		mu.Lock()
		defer mu.Unlock()
		for _, line := range unexpected {
			c.t.Errorf("logged: %s", line)
		}
	})
	c.t.Cleanup(stop)
	return stop
}

// pod reads a Pod.
func (c *cluster) pod(name string) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{}
	if err := c.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, pod); err != nil {
		c.t.Fatal(err)
	}
	return pod
}

// untilPod waits until want returns nil for the Pod, and returns the Pod.
func (c *cluster) untilPod(name string, want func(*corev1.Pod) error) *corev1.Pod {
	c.t.Helper()
	pod := &corev1.Pod{}
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		*pod = corev1.Pod{} // fields missing in the response would keep their last values
		if err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, pod); err != nil {
			return err
		}
		return want(pod)
	})
	return pod
}

// untilPods waits until want returns nil for the CloneSet's Pods, and returns the Pods. Terminating Pods do not
// count.
func (c *cluster) untilPods(name string, want func([]corev1.Pod) error) []corev1.Pod {
	c.t.Helper()
	var pods []corev1.Pod
	controlplanetest.Eventually(c.t, 2*time.Minute, func(context.Context) error {
		pods = c.pods(name)
		return want(pods)
	})
	return pods
}

// untilGone waits until the Pod is terminating or does not exist any more.
func (c *cluster) untilGone(name string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, time.Minute, func(ctx context.Context) error {
		pod := &corev1.Pod{}
		err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, pod)
		if err == nil && pod.DeletionTimestamp == nil {
			return errors.New("Pod " + name + " is still there")
		}
		return client.IgnoreNotFound(err)
	})
}

// patchPod sends a JSON merge patch.
func (c *cluster) patchPod(name, body string) {
	c.t.Helper()
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = c.namespace, name
	if err := c.Patch(c.t.Context(), pod, client.RawPatch(types.MergePatchType, []byte(body))); err != nil {
		c.t.Fatal(err)
	}
}

// setCondition writes a condition of a Pod.
func (c *cluster) setCondition(name string, condition corev1.PodCondition) {
	c.t.Helper()
	body, err := json.Marshal(map[string]any{"status": map[string]any{"conditions": []corev1.PodCondition{condition}}})
	if err != nil {
		c.t.Fatal(err)
	}
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = c.namespace, name
	if err := c.Status().Patch(c.t.Context(), pod, client.RawPatch(types.StrategicMergePatchType, body)); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) label(pod, key, value string) {
	c.t.Helper()
	c.patchPod(pod, fmt.Sprintf(`{"metadata":{"labels":{%q:%q}}}`, key, value))
}

func (c *cluster) unlabel(pod, key string) {
	c.t.Helper()
	c.patchPod(pod, fmt.Sprintf(`{"metadata":{"labels":{%q:null}}}`, key))
}

func (c *cluster) annotate(pod, key, value string) {
	c.t.Helper()
	c.patchPod(pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value))
}

func (c *cluster) unannotate(pod, key string) {
	c.t.Helper()
	c.patchPod(pod, fmt.Sprintf(`{"metadata":{"annotations":{%q:null}}}`, key))
}

// untilEvent waits for an event about the CloneSet with the reason and all the texts.
func (c *cluster) untilEvent(name, reason string, texts ...string) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 30*time.Second, func(ctx context.Context) error {
		var list corev1.EventList
		if err := c.List(ctx, &list, client.InNamespace(c.namespace)); err != nil {
			return err
		}
		var seen []string
		for i := range list.Items {
			e := &list.Items[i]
			if e.InvolvedObject.Name != name || e.Reason != reason {
				continue
			}
			missing := func(text string) bool { return !strings.Contains(e.Message, text) }
			if !slices.ContainsFunc(texts, missing) && e.Source.Component == cloneset.ControllerName {
				return nil
			}
			seen = append(seen, e.Message)
		}
		return fmt.Errorf("no event %s with %q, only %q", reason, texts, seen)
	})
}

// revisions returns the CloneSet's revisions, ordered by revision number.
func (c *cluster) revisions(cs *v1beta1.CloneSet) []appsv1.ControllerRevision {
	c.t.Helper()
	var list appsv1.ControllerRevisionList
	if err := c.List(c.t.Context(), &list, client.InNamespace(c.namespace), client.MatchingLabels{"app": cs.Name}); err != nil {
		c.t.Fatal(err)
	}
	slices.SortFunc(list.Items, func(a, b appsv1.ControllerRevision) int { return int(a.Revision - b.Revision) })
	return list.Items
}

// mark returns the present end of the audit log.
func (c *cluster) mark() int64 {
	c.t.Helper()
	return controllertest.End(c.t, c.cp.AuditLog())
}

// writes counts the controllers' writes since an offset in the audit log to Pods and claims of the CloneSet, by verb
// and resource.
func (c *cluster) writes(name string, since int64) map[string]int {
	c.t.Helper()
	requests, _ := controllertest.Requests(c.t, c.cp.AuditLog(), since, "kruise-manager/")
	var own []controllertest.Request
	for _, r := range requests {
		if strings.HasPrefix(r.Name, name+"-") && strings.HasPrefix(r.Resource, "p") {
			own = append(own, r)
		}
	}
	return controllertest.Tally(own, c.namespace)
}

// wantWrites waits until the controller's writes equal want, because the API server logs a request shortly after the
// effect of the request is visible.
func (c *cluster) wantWrites(about, name string, since int64, want map[string]int) {
	c.t.Helper()
	controlplanetest.Eventually(c.t, 10*time.Second, func(context.Context) error {
		if diff := cmp.Diff(want, c.writes(name, since)); diff != "" {
			return fmt.Errorf("%s (-want +got):\n%s", about, diff)
		}
		return nil
	})
}

// witness creates a second CloneSet and waits until the CloneSet has settled. When the second CloneSet has settled,
// the controller has also acted on all earlier events.
func (c *cluster) witness(name string) {
	c.t.Helper()
	c.create(c.cloneSet(name+"-witness", 1))
}

// limits are the smallest number of ready Pods and the largest number of Pods that a CloneSet may have at any time.
type limits struct {
	minReady, maxPods int
}

// watched contains the events of a watch.
type watched struct {
	*controllertest.Recorder

	mu               sync.Mutex
	minReady, maxAll int
}

// watch follows the CloneSet's Pods and fails the test when the limits are exceeded.
func (c *cluster) watch(name string, l limits) *watched {
	c.t.Helper()
	w := &watched{minReady: -1}
	replayed := len(c.pods(name))
	w.Recorder = controllertest.Watch(c.t, c, c.namespace, func(pods map[types.UID]*corev1.Pod) {
		ready, all := 0, 0
		for _, pod := range pods {
			if pod.Labels["app"] != name {
				continue
			}
			if pod.DeletionTimestamp == nil && podstate.IsActive(pod) {
				all++
			}
			if podstate.IsReady(pod) && pod.DeletionTimestamp == nil {
				ready++
			}
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.minReady < 0 && all < replayed {
			return // the list of existing Pods has not been replayed yet
		}
		if w.minReady < 0 {
			w.minReady = ready
		}
		w.minReady, w.maxAll = min(w.minReady, ready), max(w.maxAll, all)
	})
	c.t.Cleanup(func() {
		ready, all := w.seen()
		if ready < l.minReady || all > l.maxPods {
			c.t.Errorf("%d Pods at least were ready and %d at most existed, want %d and %d", ready, all, l.minReady, l.maxPods)
		}
	})
	return w
}

// seen returns the smallest number of ready Pods, and the largest number of existing Pods.
func (w *watched) seen() (minReady, maxAll int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.minReady, w.maxAll
}

// of returns the recorded states of a Pod.
func (w *watched) of(uid types.UID) []*corev1.Pod {
	var out []*corev1.Pod
	for _, e := range w.Events() {
		if e.Pod.UID == uid {
			out = append(out, e.Pod)
		}
	}
	return out
}

// byImage counts Pods by the image of their first container.
func byImage(pods []corev1.Pod) map[string]int {
	out := map[string]int{}
	for i := range pods {
		_, tag, _ := strings.Cut(pods[i].Spec.Containers[0].Image, ":")
		out[tag]++
	}
	return out
}

func images(want map[string]int) func([]corev1.Pod) error {
	return func(pods []corev1.Pod) error {
		if got := byImage(pods); fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("Pods by image: %v, want %v", got, want)
		}
		return nil
	}
}

func count(n int) func([]corev1.Pod) error {
	return func(pods []corev1.Pod) error {
		if len(pods) != n {
			return fmt.Errorf("%d Pods, want %d", len(pods), n)
		}
		return nil
	}
}

func state(want string) func(*corev1.Pod) error {
	return func(pod *corev1.Pod) error {
		if got := pod.Labels[apps.LabelLifecycleState]; got != want {
			return fmt.Errorf("Pod %s is in state %q, want %q", pod.Name, got, want)
		}
		return nil
	}
}

// gate reports whether the condition InPlaceUpdateReady has the wanted status.
func gate(pod *corev1.Pod, want corev1.ConditionStatus) bool {
	c := podstate.Condition(pod, apps.ConditionInPlaceUpdateReady)
	return c != nil && c.Status == want
}

func observed(cs *v1beta1.CloneSet) error {
	if cs.Status.ObservedGeneration != cs.Generation {
		return fmt.Errorf("generation %d, observed %d", cs.Generation, cs.Status.ObservedGeneration)
	}
	return nil
}

// hasCondition returns a check for a condition with the given type, status and reason, whose message contains all the
// texts. The empty reason matches any reason.
func hasCondition(t string, status corev1.ConditionStatus, reason string, texts ...string) func(*v1beta1.CloneSet) error {
	return func(cs *v1beta1.CloneSet) error {
		for _, have := range cs.Status.Conditions {
			missing := func(text string) bool { return !strings.Contains(have.Message, text) }
			if have.Type == t && have.Status == status && (reason == "" || have.Reason == reason) && !slices.ContainsFunc(texts, missing) {
				return nil
			}
		}
		return fmt.Errorf("no condition %s=%s %s with %q, only %+v", t, status, reason, texts, cs.Status.Conditions)
	}
}

func setReplicas(n int32) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { cs.Spec.Replicas = &n }
}

func rolling(f func(*v1beta1.RollingUpdateCloneSet)) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) { f(cs.Spec.UpdateStrategy.RollingUpdate) }
}

func policy(p v1beta1.CloneSetPodUpdatePolicy) func(*v1beta1.CloneSet) {
	return rolling(func(ru *v1beta1.RollingUpdateCloneSet) { ru.PodUpdatePolicy = p })
}

func setEnv(name, value string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		cs.Spec.Template.Spec.Containers[0].Env = []corev1.EnvVar{{Name: name, Value: value}}
	}
}

// templateLabel adds a label to the template. The labels are copied, because cloneSet uses the same map for the
// selector.
func templateLabel(key, value string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		labels := map[string]string{key: value}
		for k, v := range cs.Spec.Template.Labels {
			if k != key {
				labels[k] = v
			}
		}
		cs.Spec.Template.Labels = labels
	}
}

func templateAnnotation(key, value string) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		if cs.Spec.Template.Annotations == nil {
			cs.Spec.Template.Annotations = map[string]string{}
		}
		cs.Spec.Template.Annotations[key] = value
	}
}

// both applies several changes.
func both(changes ...func(*v1beta1.CloneSet)) func(*v1beta1.CloneSet) {
	return func(cs *v1beta1.CloneSet) {
		for _, f := range changes {
			f(cs)
		}
	}
}
