package preview_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/cli/forecast"
	"github.com/workloadkit/workloadkit/examples/cli/progress"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
)

func setting(t *testing.T, name string, value int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return value
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return n
}

// TestPreviewEqualsWhatHappens previews random rollouts, then carries out the same rollouts, and compares.
// PREVIEW_SEEDS is the number of rollouts, and PREVIEW_FIRST_SEED is the first seed.
func TestPreviewEqualsWhatHappens(t *testing.T) {
	seeds, first := setting(t, "PREVIEW_SEEDS", 8), setting(t, "PREVIEW_FIRST_SEED", 1)
	cp := env.Start(t)
	c := controllertest.Client(t, cp)
	controllertest.Serve(t, cp, c, manager.Options{})
	var next, equal atomic.Int64
	var wg sync.WaitGroup
	line := &commands{}
	for range setting(t, "PREVIEW_WORKERS", 6) {
		wg.Go(func() {
			for i := next.Add(1) - 1; i < int64(seeds); i = next.Add(1) - 1 {
				t.Run(fmt.Sprintf("seed%d", first+int(i)), func(t *testing.T) {
					r := &rolloutTest{T: t, cp: cp, c: c, line: line}
					r.play(uint64(first + int(i)))
					if !t.Failed() {
						equal.Add(1)
					}
				})
			}
		})
	}
	wg.Wait()
	t.Logf("%d of %d previews equal what happened", equal.Load(), seeds)
}

// rolloutTest is one rollout on a real API server.
type rolloutTest struct {
	*testing.T

	cp   *controlplane.ControlPlane
	c    client.WithWatch
	line *commands
	s    *scenario
}

const limit = 90 * time.Second

func (r *rolloutTest) play(seed uint64) {
	namespace := fmt.Sprintf("seed-%d", seed)
	if err := r.c.Create(r.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}); err != nil {
		r.Fatal(err)
	}
	r.s = newScenario(seed, namespace)
	defer func() {
		if r.Failed() {
			r.Log(strings.Join(r.s.story, "; "))
		}
		r.end()
	}()
	for _, object := range append(r.s.first, r.s.workload) {
		if err := r.c.Create(r.Context(), object.DeepCopyObject().(client.Object)); err != nil {
			r.Fatal(err)
		}
	}
	r.await("the workload is ready", r.ready)
	manifest, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.s.changed)
	if err != nil {
		r.Fatal(err)
	}
	gvk, err := apiutil.GVKForObject(r.s.changed, r.c.Scheme())
	if err != nil {
		r.Fatal(err)
	}
	delete(manifest, "status")
	manifest["apiVersion"], manifest["kind"] = gvk.GroupVersion().String(), gvk.Kind
	report, text := r.line.preview(r.T, r.cp, namespace, manifest)
	before := r.pods()
	recorder := controllertest.Watch(r.T, r.c, namespace, nil)
	r.change(manifest)
	difference := ""
	deadline := time.Now().Add(limit)
	quiet := 0
	for quiet < 4 && time.Now().Before(deadline) {
		if difference = r.compare(report, before); difference == "" {
			quiet++
		} else {
			quiet = 0
		}
		r.rest()
	}
	if difference == "" {
		difference = r.compareOrder(report, before, recorder)
	}
	if difference == "" {
		difference = r.compareReasons(report)
	}
	if difference != "" {
		r.Errorf("%s\n%s", difference, text)
		for _, pod := range r.pods() {
			r.Logf("%s %s rev %s state %q ready %v", pod.Name, pod.UID, pod.Labels[apps.LabelRevision], pod.Labels["lifecycle.apps.kruise.io/state"], podstate.IsReady(&pod))
		}
	}
}

// rest waits for a second between two checks.
func (r *rolloutTest) rest() {
	select {
	case <-time.After(time.Second):
	case <-r.Context().Done():
	}
}

// await waits for a condition.
func (r *rolloutTest) await(what string, done func() error) {
	r.Helper()
	deadline, calm := time.Now().Add(limit), 0
	var err error
	for calm < 2 {
		if err = done(); err == nil {
			calm++
		} else if calm = 0; time.Now().After(deadline) {
			r.Fatalf("not so: %s: %v", what, err)
		}
		r.rest()
	}
}

func (r *rolloutTest) pods() []corev1.Pod {
	list := &corev1.PodList{}
	if err := r.c.List(r.Context(), list, client.InNamespace(r.s.namespace)); err != nil {
		r.Fatal(err)
	}
	return list.Items
}

// object reads an object without types.
func (r *rolloutTest) object(like client.Object) *unstructured.Unstructured {
	gvk, err := apiutil.GVKForObject(like, r.c.Scheme())
	if err != nil {
		r.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(gvk)
	if err := r.c.Get(r.Context(), client.ObjectKeyFromObject(like), u); err != nil {
		r.Fatal(err)
	}
	return u
}

func (r *rolloutTest) ready() error {
	for _, like := range append(r.s.first, r.s.workload) {
		if _, ok := like.(*v1beta1.SidecarSet); !ok && like != r.s.workload {
			continue
		}
		p, err := progress.Of(r.object(like), 0, time.Now())
		if err == nil && p.State != progress.Done {
			err = errors.New("not done")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", p.Text, err)
		}
	}
	wanted := int(r.s.replicas)
	if r.s.kind == "DaemonSet" {
		wanted = 4
	}
	if n := len(r.pods()); n != wanted {
		return fmt.Errorf("%d Pods of %d", n, wanted)
	}
	return nil
}

// change writes the changed spec.
func (r *rolloutTest) change(manifest map[string]any) {
	for {
		u := r.object(r.s.changed)
		u.Object["spec"] = runtime.DeepCopyJSONValue(manifest["spec"])
		err := r.c.Update(r.Context(), u)
		if err == nil {
			return
		}
		if !strings.Contains(err.Error(), "modified") {
			r.Fatal(err)
		}
	}
}

// compare returns the first difference between the report and the cluster. With a budget, the controller asks for
// several Pods at the same time, and the budget may allow any of these Pods. So only the numbers of Pods are
// compared.
func (r *rolloutTest) compare(report *forecast.Report, before []corev1.Pod) string {
	now := map[types.UID]*corev1.Pod{}
	pods, counts := r.pods(), map[forecast.Action]int{}
	for i := range pods {
		now[pods[i].UID] = &pods[i]
	}
	fresh := len(pods)
	for i := range before {
		was := &before[i]
		after := now[was.UID]
		want := foreseen(report, was.UID)
		got := forecast.Recreate
		switch {
		case after == nil || after.DeletionTimestamp != nil:
			if want.Action == forecast.Delete {
				got = forecast.Delete
			}
		case after.Labels[apps.LabelRevision] != was.Labels[apps.LabelRevision] || !equality.Semantic.DeepEqual(after.Spec, was.Spec):
			got = forecast.InPlace
		default:
			got = forecast.Keep
		}
		if after != nil {
			fresh--
		}
		if counts[got]++; r.s.budgeted {
			continue
		}
		if after != nil {
			if restarts := restarted(was, after); got == want.Action && !slices.Equal(restarts, want.Restarts) {
				return fmt.Sprintf("Pod %s restarts %v, previewed was %v", was.Name, restarts, want.Restarts)
			}
		}
		if got != want.Action {
			return fmt.Sprintf("Pod %s: %s, previewed was %s", was.Name, got, want.Action)
		}
	}
	for _, action := range []forecast.Action{forecast.Keep, forecast.InPlace} {
		if got, want := counts[action], report.Count(action); got != want {
			return fmt.Sprintf("%d Pods: %s, previewed were %d", got, action, want)
		}
	}
	if want := report.Count(forecast.Recreate) + report.Count(forecast.Create); fresh != want {
		return fmt.Sprintf("%d new Pods, previewed were %d", fresh, want)
	}
	p, err := progress.Of(r.object(r.s.changed), 0, time.Now())
	want := report.Outcome
	if r.s.budgeted { // without the name of a Pod
		p.Text, _, _ = strings.Cut(p.Text, " (")
		want, _, _ = strings.Cut(want, " (")
	}
	if got := p.Text; err != nil || got != want {
		return fmt.Sprintf("ends with %q (%v), previewed was %q", got, err, report.Outcome)
	}
	return ""
}

func foreseen(report *forecast.Report, uid types.UID) *forecast.Pod {
	for i := range report.Pods {
		if report.Pods[i].UID == string(uid) {
			return &report.Pods[i]
		}
	}
	return &forecast.Pod{}
}

func restarted(before, after *corev1.Pod) (names []string) {
	for i := range after.Status.ContainerStatuses {
		s := &after.Status.ContainerStatuses[i]
		for j := range before.Status.ContainerStatuses {
			if was := &before.Status.ContainerStatuses[j]; was.Name == s.Name && was.ContainerID != s.ContainerID {
				names = append(names, s.Name)
			}
		}
	}
	return names
}

// compareOrder checks that Pods of an earlier batch were changed before Pods of a later batch.
func (r *rolloutTest) compareOrder(report *forecast.Report, before []corev1.Pod, recorder *controllertest.Recorder) string {
	known := map[types.UID]*corev1.Pod{}
	for i := range before {
		known[before[i].UID] = &before[i]
	}
	if r.s.budgeted {
		return "" // the controller asks for several Pods at the same time, and the budget may allow any of these Pods
	}
	if r.s.surges && report.Count(forecast.Recreate) > 0 {
		return "" // Pods of Nodes with many Pods go first, and the scheduler chooses the Nodes of the new Pods
	}
	batch, names := 0, []string{}
	taken := map[types.UID]bool{}
	for _, e := range recorder.Events() {
		was := known[e.Pod.UID]
		if was == nil || taken[e.Pod.UID] || !forecast.TakesOut(was, e.Pod) {
			continue
		}
		taken[e.Pod.UID] = true
		n := foreseen(report, e.Pod.UID).Batch
		names = append(names, fmt.Sprintf("%s(%d)", e.Pod.Name, n))
		if n < batch {
			return fmt.Sprintf("order of Pods (with their batches): %v", names)
		}
		batch = n
	}
	return ""
}

// compareReasons checks that the report names the changed field for each recreated Pod.
func (r *rolloutTest) compareReasons(report *forecast.Report) string {
	for i := range report.Pods {
		p := &report.Pods[i]
		if p.Action != forecast.Recreate {
			continue
		}
		text := fmt.Sprint(p.Reasons)
		switch {
		case !r.s.inPlace && !strings.Contains(text, "RecreateAsked"):
			return fmt.Sprintf("Pod %s is recreated for %s, although the policy asks for it", p.Name, text)
		case r.s.inPlace && (r.s.path == "" || !strings.Contains(text, r.s.path)):
			return fmt.Sprintf("Pod %s is recreated for %s, changed was %q", p.Name, text, r.s.path)
		}
	}
	return ""
}

// end removes the objects of the rollout.
func (r *rolloutTest) end() {
	ctx := context.WithoutCancel(r.Context())
	for _, object := range append(r.s.first, r.s.workload) {
		_ = r.c.Delete(ctx, object.DeepCopyObject().(client.Object))
	}
	for _, pod := range r.pods() {
		pod.Labels["example.test/hold"] = "false"
		_ = r.c.Update(ctx, &pod)
	}
	_ = r.c.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(r.s.namespace))
}
