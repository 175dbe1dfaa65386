package cloneset

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/faultapi"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podstate"
)

const (
	namespace     = "default"
	cloneSetName  = "web"
	holdDelete    = "example.test/hold-delete"    // a label
	holdUpdate    = "example.test/hold-update"    // a finalizer
	templateLabel = "example.test/template-label" // what metadata-only updates change
)

// setup is what a schedule keeps throughout.
type setup struct {
	rollback, claims, gate  bool
	deleteHook, updateHook  bool
	markNotReady            bool
	minReady, grace, policy int
	termination             int64
}

func (w *world) begin() {
	r := w.rng
	w.setup = setup{
		rollback: w.chance(20), claims: w.chance(40), gate: w.chance(40),
		deleteHook: w.chance(30), updateHook: w.chance(30), markNotReady: w.chance(30),
		minReady: r.IntN(4) / 3 * 5, grace: r.IntN(4) / 3 * 2, policy: r.IntN(6),
		termination: int64(r.IntN(3)),
	}
	w.logf("%+v", w.setup)
	w.createOwner()
	w.boot()
}

func (w *world) createOwner() {
	labels := map[string]string{"app": cloneSetName}
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cloneSetName},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To(int32(w.rng.IntN(6))), Selector: &metav1.LabelSelector{MatchLabels: labels},
			MinReadySeconds: int32(w.setup.minReady),
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{Type: v1beta1.RollingUpdate, RollingUpdate: &v1beta1.RollingUpdateCloneSet{
				PodUpdatePolicy: w.policy(), MaxUnavailable: ptr.To(intstr.FromInt32(int32(w.rng.IntN(3)))), MaxSurge: ptr.To(intstr.FromInt32(int32(w.rng.IntN(3)))),
				InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{GracePeriodSeconds: int32(w.setup.grace)},
			}},
			ScaleStrategy:        v1beta1.CloneSetScaleStrategy{EnablePVCReuse: w.chance(50)},
			Lifecycle:            w.lifecycle(),
			RevisionHistoryLimit: ptr.To(int32(w.rng.IntN(3))),
		},
	}
	if w.setup.claims {
		cs.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{
			ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		}}
	}
	w.fillTemplate(&cs.Spec.Template)
	w.logf("user: create CloneSet, replicas %d", *cs.Spec.Replicas)
	if err := w.user.Create(context.Background(), cs); err != nil {
		w.failf("creating the CloneSet: %v", err)
	}
}

func (w *world) fillTemplate(t *corev1.PodTemplateSpec) {
	t.Labels = map[string]string{"app": cloneSetName, templateLabel: "1"}
	if w.setup.deleteHook {
		t.Labels[holdDelete] = "true"
	}
	if w.setup.updateHook {
		t.Finalizers = []string{holdUpdate}
	}
	if w.setup.gate {
		t.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: apps.ConditionKruisePodReady}}
	}
	t.Spec.TerminationGracePeriodSeconds = ptr.To(w.setup.termination)
	for _, name := range []string{"app", "log"} {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{
			Name: name, Image: "example.test/" + name + ":v1",
			Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
		})
	}
}

func (w *world) policy() v1beta1.CloneSetPodUpdatePolicy {
	switch w.setup.policy {
	case 0:
		return v1beta1.ReCreate
	case 1:
		return v1beta1.InPlaceOnly
	default:
		return v1beta1.InPlaceIfPossible
	}
}

func (w *world) lifecycle() *pub.Lifecycle {
	if !w.setup.deleteHook && !w.setup.updateHook {
		return nil
	}
	l := &pub.Lifecycle{}
	if w.setup.deleteHook {
		l.PreDelete = &pub.LifecycleHook{LabelsHandler: map[string]string{holdDelete: "true"}, MarkPodNotReady: w.setup.markNotReady}
	}
	if w.setup.updateHook {
		l.InPlaceUpdate = &pub.LifecycleHook{FinalizersHandler: []string{holdUpdate}, MarkPodNotReady: w.setup.markNotReady}
	}
	return l
}

// step does one thing, chosen by weight.
func (w *world) step() {
	w.steps++
	choices := []struct {
		weight int
		do     func()
	}{
		{30, w.release}, {18, w.startWork}, {18, w.deliver}, {20, w.nodeStep}, {5, w.userStep}, {4, w.hookStep}, {4, w.tick}, {2, w.collect}, {1, w.rare},
	}
	total := 0
	for _, c := range choices {
		total += c.weight
	}
	n := w.rng.IntN(total)
	for _, c := range choices {
		if n -= c.weight; n < 0 {
			c.do()
			break
		}
	}
	w.checkState()
}

// release lets one call of the controller go on, to whatever fate.
func (w *world) release() {
	waiting := w.process.gate.Waiting()
	if len(waiting) == 0 {
		w.startWork()
		return
	}
	call := waiting[w.rng.IntN(len(waiting))]
	w.let(call, w.fate(call.Call))
}

// fate draws what becomes of a call.
func (w *world) fate(call faultapi.Call) faultapi.Fate {
	if w.calm {
		return faultapi.Fate{}
	}
	switch n := w.rng.IntN(100); {
	case n < 3:
		return faultapi.Fate{Before: apierrors.NewInternalError(fmt.Errorf("injected"))}
	case n < 5:
		return faultapi.Fate{Before: apierrors.NewTooManyRequests("injected", 1)}
	case n < 6 && !call.IsRead() && call.Verb != "create":
		return faultapi.Fate{Before: apierrors.NewConflict(call.Resource, call.Name, fmt.Errorf("injected"))}
	case n < 9:
		return faultapi.Fate{After: apierrors.NewTimeoutError("injected: the answer was lost", 1)}
	}
	return faultapi.Fate{}
}

// let releases a call and looks at what it did.
func (w *world) let(waiting *faultapi.Waiting, fate faultapi.Fate) {
	w.calls++
	call := waiting.Call
	before := w.server.Version()
	t := w.process.running[call.Task]
	if !w.calm && w.chance(1) {
		// The process dies with the call made or not made.
		if made := w.chance(50); made {
			w.logf("call %s (and the process dies)", call)
			truth := w.truth()
			waiting.Release(faultapi.Fate{After: context.Canceled})
			w.process.gate.Break(context.Canceled)
			w.harvestDying()
			w.judge(t, call, truth, before)
		}
		w.crash("at a call")
		return
	}
	switch {
	case fate.Before != nil:
		w.logf("call %s REFUSED %v", call, fate.Before)
	case fate.After != nil:
		w.logf("call %s ANSWER LOST", call)
	default:
		w.logf("call %s", call)
	}
	if t.owner != nil && !t.wrote && call.Verb == "get" {
		w.snapshot(t) // a read after which the task begins to decide
	}
	t.wrote = t.wrote || !call.IsRead()
	truth := w.truth()
	waiting.Release(fate)
	w.harvest()
	if fate.Before == nil {
		w.judge(t, call, truth, before)
	}
}

// startWork starts one reconcile that is due.
func (w *world) startWork() {
	due := w.due()
	if len(due) == 0 {
		w.deliver()
		return
	}
	w.work(due[w.rng.IntN(len(due))])
}

func (w *world) deliver() {
	var behind []string
	for _, resource := range w.process.cache.Resources() {
		if w.process.cache.Behind(resource) > 0 {
			behind = append(behind, resource)
		}
	}
	switch {
	case len(behind) == 0 && !w.process.started:
		w.bookmark()
		return
	case len(behind) == 0:
		w.nodeStep()
		return
	}
	resource := behind[w.rng.IntN(len(behind))]
	n := 1 + w.rng.IntN(6)
	w.logf("deliver %d of %d %s", min(n, w.process.cache.Behind(resource)), w.process.cache.Behind(resource), resource)
	w.wake(resource, w.process.cache.Deliver(resource, n))
}

// bookmark comes at some time after everything else, and a process that has just started needs it.
func (w *world) bookmark() {
	for _, resource := range w.process.cache.Resources() {
		w.process.cache.Bookmark(resource)
	}
	w.logf("bookmarks")
}

// anyPod returns one Pod, nil when there is none.
func (w *world) anyPod() *corev1.Pod {
	pods := faultapi.All[*corev1.Pod](w.server)
	if len(pods) == 0 {
		return nil
	}
	return pods[w.rng.IntN(len(pods))]
}

// nodeStep lets scheduler or kubelet do something to one Pod.
func (w *world) nodeStep() {
	pod := w.anyPod()
	if pod == nil {
		return
	}
	if w.nodes.Schedule(pod, fmt.Sprintf("node-%d", w.rng.IntN(3))) {
		w.logf("node: schedule %s", pod.Name)
		return
	}
	key := client.ObjectKeyFromObject(pod)
	name := pod.Spec.Containers[w.rng.IntN(len(pod.Spec.Containers))].Name
	switch n := w.rng.IntN(100); {
	case n < 35: // a kubelet that works
		w.nodes.Observe(key, pod.UID)
		w.nodes.Run(pod.UID)
		if w.chance(70) {
			for _, c := range pod.Spec.Containers {
				w.nodes.SetReady(pod.UID, c.Name, true)
			}
		}
		w.logf("node: sync %s, changed %v", pod.Name, w.nodes.Report(pod.UID))
		w.nodes.Terminate(pod.UID)
	case n < 50:
		w.logf("node: observe %s, news %v", pod.Name, w.nodes.Observe(key, pod.UID))
	case n < 60:
		w.logf("node: run %s, changed %v", pod.Name, w.nodes.Run(pod.UID))
	case n < 75:
		w.logf("node: %s/%s ready, changed %v", pod.Name, name, w.nodes.SetReady(pod.UID, name, true))
	case n < 90:
		w.logf("node: report %s, changed %v", pod.Name, w.nodes.Report(pod.UID))
	case n < 93:
		w.logf("node: %s/%s unready, changed %v", pod.Name, name, w.nodes.SetReady(pod.UID, name, false))
	case n < 95:
		w.logf("node: crash %s/%s, changed %v", pod.Name, name, w.nodes.Crash(pod.UID, name))
	case n < 96:
		w.logf("node: evict %s, changed %v", pod.Name, w.nodes.Evict(pod.UID))
	default:
		w.logf("node: terminate %s, changed %v", pod.Name, w.nodes.Terminate(pod.UID))
	}
}

// userStep edits the CloneSet or does something to a Pod.
func (w *world) userStep() {
	if n := w.rng.IntN(100); n < 12 {
		w.userPodStep()
		return
	} else if n < 14 {
		w.replaceOwner()
		return
	}
	var cs v1beta1.CloneSet
	key := types.NamespacedName{Namespace: namespace, Name: cloneSetName}
	if err := w.user.Get(context.Background(), key, &cs); err != nil {
		w.createOwner()
		return
	}
	what := w.edit(&cs)
	w.logf("user: %s", what)
	if err := w.user.Update(context.Background(), &cs); err != nil {
		w.failf("user: %s: %v", what, err)
	}
}

// edit changes the spec and says how.
func (w *world) edit(cs *v1beta1.CloneSet) string {
	r := w.rng
	t, ru := &cs.Spec.Template, cs.Spec.UpdateStrategy.RollingUpdate
	container := &t.Spec.Containers[r.IntN(2)]
	switch n := r.IntN(100); {
	case n < 30:
		container.Image = fmt.Sprintf("example.test/%s:v%d", container.Name, 1+r.IntN(4))
		return "image " + container.Image
	case n < 38:
		t.Labels[templateLabel] = fmt.Sprint(1 + r.IntN(3))
		return "label " + t.Labels[templateLabel]
	case n < 48:
		container.Resources.Requests[corev1.ResourceCPU] = resource.MustParse(fmt.Sprintf("%d00m", 1+r.IntN(3)))
		return "resources"
	case n < 53:
		container.Env = []corev1.EnvVar{{Name: "A", Value: fmt.Sprint(r.IntN(2))}}
		return "env"
	case n < 68:
		cs.Spec.Replicas = ptr.To(int32(r.IntN(6)))
		return fmt.Sprintf("replicas %d", *cs.Spec.Replicas)
	case n < 76:
		ru.Partition = ptr.To(intstr.FromInt32(int32(r.IntN(4))))
		return "partition " + ru.Partition.String()
	case n < 82:
		ru.MaxUnavailable = ptr.To(intstr.FromInt32(int32(r.IntN(4))))
		return "maxUnavailable " + ru.MaxUnavailable.String()
	case n < 88:
		ru.MaxSurge = ptr.To(intstr.FromInt32(int32(r.IntN(3))))
		return "maxSurge " + ru.MaxSurge.String()
	case n < 92:
		ru.Paused = !ru.Paused
		return fmt.Sprintf("paused %v", ru.Paused)
	case n < 95:
		cs.Spec.Lifecycle = nil
		if w.chance(60) {
			cs.Spec.Lifecycle = w.lifecycle()
		}
		return fmt.Sprintf("lifecycle %v", cs.Spec.Lifecycle != nil)
	case n < 97:
		cs.Spec.ScaleStrategy.EnablePVCReuse = !cs.Spec.ScaleStrategy.EnablePVCReuse
		return "claim reuse"
	default:
		if pod := w.anyPod(); pod != nil {
			cs.Spec.ScaleStrategy.PodsToDelete = append(cs.Spec.ScaleStrategy.PodsToDelete, pod.Name)
		}
		return fmt.Sprintf("podsToDelete %v", cs.Spec.ScaleStrategy.PodsToDelete)
	}
}

func (w *world) userPodStep() {
	pod := w.anyPod()
	if pod == nil {
		return
	}
	if w.chance(50) {
		w.logf("user: delete %s", pod.Name)
		_ = w.user.Delete(context.Background(), pod.DeepCopy())
		return
	}
	w.logf("user: specified-delete on %s", pod.Name)
	w.change(pod, func(p *corev1.Pod) { p.Labels[apps.LabelSpecifiedDelete] = "true" })
}

// change updates a Pod as somebody who has read it just now.
func (w *world) change(pod *corev1.Pod, f func(*corev1.Pod)) {
	fresh := pod.DeepCopy()
	f(fresh)
	if err := w.user.Update(context.Background(), fresh); err != nil {
		w.failf("changing Pod %s: %v", pod.Name, err)
	}
}

// replaceOwner deletes the CloneSet; a later step creates another one of its name.
func (w *world) replaceOwner() {
	if w.chance(70) {
		return
	}
	w.logf("user: delete the CloneSet")
	cs := &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: cloneSetName}}
	_ = w.user.Delete(context.Background(), cs)
}

// hookStep lets the controller behind the hooks do its work on one Pod.
func (w *world) hookStep() {
	if pod := w.anyPod(); pod != nil {
		w.honour(pod)
	}
}

// honour releases or restores what a Pod's state asks for. It reports whether there was anything to do.
func (w *world) honour(pod *corev1.Pod) bool {
	state := lifecycle.State(pod.Labels[apps.LabelLifecycleState])
	_, held := pod.Labels[holdDelete]
	bound := controllerutil.ContainsFinalizer(pod, holdUpdate)
	switch {
	case pod.DeletionTimestamp != nil && bound, state == lifecycle.PreparingUpdate && bound:
		w.logf("hook: let %s go (%s)", pod.Name, state)
		w.change(pod, func(p *corev1.Pod) { controllerutil.RemoveFinalizer(p, holdUpdate) })
	case state == lifecycle.PreparingDelete && held:
		w.logf("hook: let %s be deleted", pod.Name)
		w.change(pod, func(p *corev1.Pod) { delete(p.Labels, holdDelete) })
	case pod.DeletionTimestamp == nil && w.setup.updateHook && !bound && (state == lifecycle.Updated || state == lifecycle.Normal):
		w.logf("hook: hold %s again", pod.Name)
		w.change(pod, func(p *corev1.Pod) { controllerutil.AddFinalizer(p, holdUpdate) })
	case pod.DeletionTimestamp == nil && w.setup.deleteHook && !held && (state == lifecycle.PreparingNormal || state == lifecycle.Normal):
		w.logf("hook: hold %s against deletion again", pod.Name)
		w.change(pod, func(p *corev1.Pod) { p.Labels[holdDelete] = "true" })
	default:
		return false
	}
	return true
}

func (w *world) tick() {
	for _, d := range []time.Duration{20 * time.Millisecond, time.Second, 3 * time.Second, 10 * time.Second} {
		if w.chance(40) || d == 10*time.Second {
			w.sleep(d)
			return
		}
	}
}

func (w *world) sleep(d time.Duration) {
	w.logf("time passes: %v", d)
	time.Sleep(d)
	w.harvest()
}

func (w *world) collect() { w.logf("garbage collected: %v", w.server.CollectGarbage()) }

func (w *world) rare() {
	resources := w.process.cache.Resources()
	resource := resources[w.rng.IntN(len(resources))]
	switch w.rng.IntN(5) {
	case 0, 1:
		w.crash("out of the blue")
	case 2, 3:
		w.logf("bookmark %s: %v", resource, w.process.cache.Bookmark(resource))
	case 4:
		w.logf("relist %s", resource)
		w.wake(resource, w.process.cache.Relist(resource))
	}
}

// isAvailable judges a Pod by the CloneSet's rules (C-49).
func isAvailable(cs *v1beta1.CloneSet, pod *corev1.Pod, now time.Time) bool {
	ok, _ := podstate.Available(pod, time.Duration(cs.Spec.MinReadySeconds)*time.Second, now)
	return ok && podstate.IsActive(pod) && podstate.GateOpen(pod, apps.ConditionInPlaceUpdateReady) &&
		lifecycle.State(pod.Labels[apps.LabelLifecycleState]).Available()
}
