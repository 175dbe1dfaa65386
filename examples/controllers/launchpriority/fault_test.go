package launchpriority_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/workloadkit/workloadkit/examples/controllers/launchpriority"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/launchorder"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/testing/chaos"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// TestFaults: under any faults, the controller lets the containers of a priority start only when all containers of
// higher priorities are ready. The controller writes only ConfigMaps of the Pod, or ConfigMaps that an earlier Pod of
// the same name has left. In the end all containers run.
func TestFaults(t *testing.T) { chaos.Run(t, plan(t)) }

// TestFaultsReplay: a fault schedule, that is a test run with random faults, takes the same course whenever the seed
// is the same.
func TestFaultsReplay(t *testing.T) { chaos.Replay(t, plan(t), 3) }

func plan(t testing.TB) chaos.Plan {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	order, err := kruise.LaunchOrder()
	if err != nil {
		t.Fatal(err)
	}
	return chaos.Plan{
		Scheme: scheme, Kinds: []client.Object{&corev1.ConfigMap{}}, Seeds: 200, Steps: 150, Quiet: 12 * time.Minute, // the longest back-off is 10 minutes
		New: func(world *chaos.World) chaos.Subject {
			w := &story{World: world, order: order, started: map[launched]bool{}, wasReady: map[launched]bool{}, spoiled: map[string]bool{}}
			return chaos.Subject{Setup: w.start, Begin: w.begin, Users: w.users, Settle: w.settle, Looks: w.look, Wrote: w.judge, Check: w.check, Converged: w.converged}
		},
	}
}

// story is the state of a fault schedule, that is a test run with random faults.
type story struct {
	*chaos.World

	order *launchorder.Order
	pods  int
	// started and wasReady contain the containers that were started or ready at least once.
	started, wasReady map[launched]bool
	// spoiled contains the names of ConfigMaps that do not belong to the present Pod of the name, while the Pod exists.
	spoiled map[string]bool
}

// launched is a container of a Pod.
type launched struct {
	pod  types.UID
	name string
}

func (w *story) start(ctx context.Context, mgr manager.Manager) error {
	return launchpriority.Setup(ctx, mgr, mgr.GetClient(), kruise.Options{RateLimiter: func() workqueue.TypedRateLimiter[ctrl.Request] {
		return workqueue.NewTypedItemExponentialFailureRateLimiter[ctrl.Request](10*time.Millisecond, time.Minute)
	}})
}

func (w *story) must(err error) {
	if err != nil {
		w.Failf("story", "%v", err)
	}
}

func (w *story) begin() {
	for range 2 {
		w.createPod()
	}
}

// createPod creates a Pod as the webhook would change it. Only three names exist, so names are used again.
func (w *story) createPod() {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("web-%d", w.Rand().IntN(3))}}
	for i := range 1 + w.Rand().IntN(4) {
		pod.Spec.Containers = append(pod.Spec.Containers, corev1.Container{
			Name: fmt.Sprintf("c%d", i), Image: "app:v1",
			Env: []corev1.EnvVar{{Name: "KRUISE_CONTAINER_PRIORITY", Value: fmt.Sprint(w.Rand().IntN(3))}},
		})
	}
	_, err := w.order.Inject(pod, "")
	w.must(err)
	if err := w.User.Create(context.Background(), pod); err == nil {
		w.pods++
		name := w.order.ConfigMapName(pod)
		w.spoiled[name] = w.Server.Stored(&corev1.ConfigMap{}, client.ObjectKeyFromObject(w.named(pod.Name))) != nil
		w.Logf("user: creates Pod %s of %d containers", pod.Name, len(pod.Spec.Containers))
	} // otherwise a Pod of the name exists
}

// users makes a random change as a user.
func (w *story) users() {
	pod := w.AnyPod()
	switch n := w.Rand().IntN(10); {
	case n < 4 && w.pods < 12 || pod == nil:
		w.createPod()
	case n < 6:
		w.Logf("user: deletes Pod %s", pod.Name)
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), pod.DeepCopy())))
	case n < 7:
		w.Logf("user: deletes the ConfigMap of Pod %s", pod.Name)
		w.must(client.IgnoreNotFound(w.User.Delete(context.Background(), w.named(pod.Name))))
	case n < 8:
		foreign := w.named(fmt.Sprintf("web-%d", w.Rand().IntN(3)))
		if err := w.User.Create(context.Background(), foreign); err == nil {
			w.Logf("user: creates a ConfigMap %s", foreign.Name)
			w.spoiled[foreign.Name] = true
		}
	default:
		w.Logf("garbage is collected: %v", w.Server.CollectGarbage())
	}
}

// named returns a ConfigMap of a user, with the name of the ConfigMap for a Pod.
func (w *story) named(pod string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: "default", Name: w.order.ConfigMapName(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: pod}}),
	}}
}

// settle deletes the users' ConfigMaps with names that Pods need, because such Pods would wait forever.
func (w *story) settle() {
	for _, found := range faultapi.All[*corev1.ConfigMap](w.Server) {
		if len(found.OwnerReferences) == 0 {
			w.must(w.User.Delete(context.Background(), found.DeepCopy()))
		}
	}
	w.Server.CollectGarbage()
}

func (w *story) look(task *chaos.Task, call *faultapi.Call) {
	if call != nil {
		return // a reconciliation reads its Pod once, before all other requests
	}
	pod := &corev1.Pod{}
	if err := task.Process.Cache.Get(context.Background(), task.Object, pod); err == nil {
		task.View = pod
	}
}

// judge checks a write of the controller.
func (w *story) judge(write *chaos.Write) {
	pod, ok := write.Task.View.(*corev1.Pod)
	if !ok {
		w.Failf("view", "%s without a Pod", write.Call)
	}
	if write.Call.Resource.Resource == "pods" {
		w.judgeMark(pod, write)
		return
	}
	before, _ := write.Before.(*corev1.ConfigMap)
	after, _ := write.After.(*corev1.ConfigMap)
	if before != nil && !isOf(before, pod.Name, "") {
		w.Failf("foreign", "ConfigMap %s of somebody else is touched", before.Name)
	}
	if after == nil {
		if isOf(before, pod.Name, pod.UID) {
			w.Failf("lost", "Pod %s loses its ConfigMap", pod.Name)
		}
		return
	}
	if !isOf(after, pod.Name, pod.UID) {
		w.Failf("owner", "ConfigMap %s is written for Pod %s, which does not own it", after.Name, pod.Name)
	}
	if w.Nodes.Pod(write.Task.Object, pod.UID) == nil {
		w.spoiled[after.Name] = true // for the present Pod of the name
	}
	for key := range after.Data {
		if before == nil || before.Data[key] == "" {
			w.judgeKey(pod, key)
		}
	}
}

// isOf reports whether a ConfigMap is owned by a Pod of the given name, and of the given UID unless uid is empty.
func isOf(found *corev1.ConfigMap, pod string, uid types.UID) bool {
	return slices.ContainsFunc(found.OwnerReferences, func(ref metav1.OwnerReference) bool {
		return ref.Name == pod && (uid == "" || ref.UID == uid)
	})
}

// judgeKey checks that the controller adds a key only when all containers of higher priorities have been ready.
func (w *story) judgeKey(pod *corev1.Pod, key string) {
	if pod.Annotations[completed] == "true" {
		return
	}
	opened := false
	for i := range pod.Spec.Containers {
		if keyOf(&pod.Spec.Containers[i]) != key {
			continue
		}
		opened = true
		for j := range pod.Spec.Containers {
			above := &pod.Spec.Containers[j]
			status := podstate.ContainerStatus(pod, above.Name)
			if priorityOf(above) > priorityOf(&pod.Spec.Containers[i]) && (status == nil || !status.Ready) {
				w.Failf("order", "%s of Pod %s is opened while container %s above is not ready", key, pod.Name, above.Name)
			}
		}
	}
	if !opened {
		w.Failf("key", "%s is opened, for which no container of Pod %s waits", key, pod.Name)
	}
}

func keyOf(c *corev1.Container) string {
	for _, env := range c.Env {
		if env.ValueFrom != nil && env.ValueFrom.ConfigMapKeyRef != nil {
			return env.ValueFrom.ConfigMapKeyRef.Key
		}
	}
	return ""
}

func priorityOf(c *corev1.Container) string { return c.Env[0].Value } // a single digit

// judgeMark checks that the controller annotates a Pod as completed only once, and only when the ConfigMap has the
// keys of all containers.
func (w *story) judgeMark(pod *corev1.Pod, write *chaos.Write) {
	before, after := write.Before.(*corev1.Pod), write.After.(*corev1.Pod)
	if before.UID != pod.UID || before.Annotations[completed] == "true" || after.Annotations[completed] != "true" {
		w.Failf("mark", "Pod %s is written, with annotations %v", after.Name, after.Annotations)
	}
	found, _ := w.Server.Stored(&corev1.ConfigMap{}, client.ObjectKeyFromObject(w.named(after.Name))).(*corev1.ConfigMap)
	for i := range after.Spec.Containers {
		key := keyOf(&after.Spec.Containers[i])
		if key != "" && found != nil && isOf(found, after.Name, after.UID) && found.Data[key] == "" {
			w.Failf("mark", "Pod %s is marked while %s is closed", after.Name, key)
		}
	}
}

// check checks that a container starts only after all containers of higher priorities have been ready, unless the
// ConfigMap of an earlier Pod has opened all barriers.
func (w *story) check() {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		for i := range pod.Spec.Containers {
			c := &pod.Spec.Containers[i]
			if w.started[launched{pod.UID, c.Name}] || w.Nodes.Image(pod.UID, c.Name) == "" {
				continue
			}
			w.started[launched{pod.UID, c.Name}] = true
			for j := range pod.Spec.Containers {
				above := &pod.Spec.Containers[j]
				if priorityOf(above) > priorityOf(c) && !w.wasReady[launched{pod.UID, above.Name}] && !w.spoiled[w.order.ConfigMapName(pod)] {
					w.Failf("launch", "container %s of Pod %s starts before %s was ready", c.Name, pod.Name, above.Name)
				}
			}
		}
		for _, status := range pod.Status.ContainerStatuses {
			if status.Ready {
				w.wasReady[launched{pod.UID, status.Name}] = true
			}
		}
	}
}

// converged checks that all containers run, and Pods with launch priorities are marked as completed.
func (w *story) converged() {
	var errs []error
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if !podstate.IsActive(pod) {
			continue
		}
		if !podstate.IsReady(pod) {
			errs = append(errs, fmt.Errorf("Pod %s is not ready: %+v", pod.Name, pod.Status.ContainerStatuses))
		}
		if hasOrder := slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return keyOf(&c) != "" }); hasOrder != (pod.Annotations[completed] == "true") {
			errs = append(errs, fmt.Errorf("Pod %s has an order: %v, and annotations %v", pod.Name, hasOrder, pod.Annotations))
		}
	}
	if err := errors.Join(errs...); err != nil {
		w.Failf("stuck", "%v", err)
	}
}
