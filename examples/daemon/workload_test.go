package daemon_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/containerrecreaterequest"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	policyv1beta1 "github.com/workloadkit/workloadkit/examples/apis/policy/v1beta1"
	"github.com/workloadkit/workloadkit/examples/controllertest"
	"github.com/workloadkit/workloadkit/examples/manager"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/controlplane"
	"github.com/workloadkit/workloadkit/testing/controlplane/controlplanetest"
)

// restarted waits until wanted returns true for the condition about a workload's restart.
func (n *node) restarted(name string, wanted func(*v1beta1.Condition) bool) {
	n.t.Helper()
	controlplanetest.Eventually(n.t, 5*time.Minute, func(ctx context.Context) error {
		cs := &v1beta1.CloneSet{}
		if err := n.Get(ctx, client.ObjectKey{Namespace: n.namespace, Name: name}, cs); err != nil {
			return err
		}
		if c := cs.Status.Conditions.Find(apps.ConditionContainersRestarted); c == nil || !wanted(c) {
			return fmt.Errorf("conditions %+v", cs.Status.Conditions)
		}
		return nil
	})
}

// says returns a function that reports whether a condition has a reason and contains a text.
func says(reason, text string) func(*v1beta1.Condition) bool {
	return func(c *v1beta1.Condition) bool { return c.Reason == reason && strings.Contains(c.Message, text) }
}

func (n *node) patch(object client.Object, fields map[string]any) {
	n.t.Helper()
	body, err := json.Marshal(fields)
	if err != nil {
		n.t.Fatal(err)
	}
	if err := n.Patch(n.t.Context(), object, client.RawPatch(types.MergePatchType, body)); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) rolling(cs *v1beta1.CloneSet, fields map[string]any) {
	n.t.Helper()
	n.patch(cs, map[string]any{"spec": map[string]any{"updateStrategy": map[string]any{"rollingUpdate": fields}}})
}

// wishFor requests a restart of container app in all Pods of a CloneSet.
func (n *node) wishFor(cs *v1beta1.CloneSet) {
	n.t.Helper()
	// Times in statuses have whole seconds, so a container started in the same second as the request would count as
	// restarted.
	value := time.Now().Add(time.Second).UTC().Format(time.RFC3339) + " app"
	n.patch(cs, map[string]any{"metadata": map[string]any{"annotations": map[string]string{apps.AnnotationRestartContainers: value}}})
}

// workload creates a CloneSet whose Pods take a second to start, and a budget that allows one unavailable Pod.
func (n *node) workload(name string, replicas int32, preStop int64) *v1beta1.CloneSet {
	n.t.Helper()
	labels := map[string]string{"app": name}
	cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name}}
	cs.Spec.Replicas, cs.Spec.Selector, cs.Spec.Template.Labels = &replicas, &metav1.LabelSelector{MatchLabels: labels}, labels
	cs.Spec.Template.Annotations = map[string]string{controlplane.StartDelay: "1s"}
	cs.Spec.Template.Spec.TerminationGracePeriodSeconds = new(int64(30))
	cs.Spec.Template.Spec.Containers = []corev1.Container{{Name: "app", Image: "app:1"}, {Name: "log", Image: "log:1"}}
	if preStop > 0 {
		cs.Spec.Template.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PreStop: &corev1.LifecycleHandler{Sleep: &corev1.SleepAction{Seconds: preStop}}}
	}
	cs.Spec.UpdateStrategy.RollingUpdate = &v1beta1.RollingUpdateCloneSet{MaxUnavailable: ptr.To(intstr.FromInt32(2))}
	budget := &policyv1beta1.PodUnavailableBudget{ObjectMeta: metav1.ObjectMeta{Namespace: n.namespace, Name: name}}
	budget.Spec.Selector, budget.Spec.MaxUnavailable = cs.Spec.Selector, ptr.To(intstr.FromInt32(1))
	for _, object := range []client.Object{budget, cs} {
		if err := n.Create(n.t.Context(), object); err != nil {
			n.t.Fatal(err)
		}
	}
	controlplanetest.Eventually(n.t, within, func(ctx context.Context) error {
		if err := n.Get(ctx, client.ObjectKeyFromObject(cs), cs); err != nil {
			return err
		}
		if err := n.Get(ctx, client.ObjectKeyFromObject(budget), budget); err != nil {
			return err
		}
		if cs.Status.AvailableReplicas != replicas || budget.Status.UnavailableAllowed != 1 {
			return fmt.Errorf("status %+v, budget %+v", cs.Status, budget.Status)
		}
		return nil
	})
	return cs
}

// most watches the objects of a list until stop is called. stop returns the largest number of objects for which
// counts returned true at the same time.
func (n *node) most(list client.ObjectList, counts func(client.Object) bool) (stop func() int) {
	n.t.Helper()
	w, err := n.Watch(n.t.Context(), list, client.InNamespace(n.namespace))
	if err != nil {
		n.t.Fatal(err)
	}
	most := make(chan int, 1)
	go func() {
		now, peak := map[types.UID]bool{}, 0
		for e := range w.ResultChan() {
			if object, ok := e.Object.(client.Object); ok {
				now[object.GetUID()] = e.Type != watch.Deleted && counts(object)
				maps.DeleteFunc(now, func(_ types.UID, counted bool) bool { return !counted })
				peak = max(peak, len(now))
			}
		}
		most <- peak
	}()
	return func() int {
		w.Stop()
		return <-most
	}
}

func (n *node) away() (unready, underWay func() int) {
	n.t.Helper()
	unready = n.most(&corev1.PodList{}, func(o client.Object) bool {
		pod, ok := o.(*corev1.Pod)
		return ok && !podstate.IsReady(pod)
	})
	underWay = n.most(&v1beta1.ContainerRecreateRequestList{}, func(o client.Object) bool {
		r, ok := o.(*v1beta1.ContainerRecreateRequest)
		return ok && !api.HasEnded(&r.Status)
	})
	return unready, underWay
}

func (n *node) restartsOf(app string) (all []string) {
	n.t.Helper()
	var pods corev1.PodList
	if err := n.List(n.t.Context(), &pods, client.InNamespace(n.namespace), client.MatchingLabels{"app": app}); err != nil {
		n.t.Fatal(err)
	}
	for i := range pods.Items {
		all = append(all, n.restarts(&pods.Items[i]))
	}
	return all
}

func (n *node) serve() {
	n.t.Helper()
	gates := apps.DefaultGates()
	gates[apps.GatePodUnavailableBudgetUpdate] = true
	controllertest.Serve(n.t, n.cp, n, manager.Options{Gates: gates})
	n.agent()
}

// TestRestartOfWorkload: all Pods of a CloneSet restart, as many at a time as the budget allows. A partition and a
// pause stop the restart, and no container restarts twice or without a request.
func TestRestartOfWorkload(t *testing.T) {
	n := newNode(t)
	n.serve()
	cs := n.workload("web", 10, 0)
	unready, underWay := n.away()
	n.rolling(cs, map[string]any{"partition": 7})
	n.wishFor(cs)
	n.restarted("web", says("PartitionReached", "3 of 10 Pods have restarted"))
	n.rolling(cs, map[string]any{"paused": true, "partition": 0})
	n.restarted("web", says("JobPaused", "3 of 10 Pods have restarted"))
	n.rolling(cs, map[string]any{"paused": false})
	n.restarted("web", func(c *v1beta1.Condition) bool { return c.Status == corev1.ConditionTrue })
	if pods, requests := unready(), underWay(); pods > 1 || requests > 1 {
		t.Errorf("%d Pods did not serve, and %d requests were under way, at a time", pods, requests)
	}
	for _, restarts := range n.restartsOf("web") {
		if restarts != "app 1, log 0" {
			t.Errorf("restarts %s", restarts)
		}
	}
	controlplanetest.Eventually(t, within, func(ctx context.Context) error {
		var requests v1beta1.ContainerRecreateRequestList
		if err := n.List(ctx, &requests, client.InNamespace(n.namespace)); err != nil {
			return err
		}
		if len(requests.Items) > 0 {
			return fmt.Errorf("%d requests are left", len(requests.Items))
		}
		return nil
	})
}

// TestRestartKeepsItsShare: if a container takes longer to stop than the time for which a budget counts an admitted
// disruption, still no other Pod restarts meanwhile.
func TestRestartKeepsItsShare(t *testing.T) {
	n := newNode(t)
	n.serve()
	cs := n.workload("slow", 3, 14)
	unready, underWay := n.away()
	n.wishFor(cs)
	n.restarted("slow", func(c *v1beta1.Condition) bool { return c.Status == corev1.ConditionTrue })
	if pods, requests := unready(), underWay(); pods > 1 || requests > 1 {
		t.Errorf("%d Pods did not serve, and %d requests were under way, at a time", pods, requests)
	}
}
