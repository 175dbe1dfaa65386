package cloneset

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

const (
	namespace     = "default"
	holdDelete    = "example.test/hold-delete"    // a label
	holdUpdate    = "example.test/hold-update"    // a finalizer
	templateLabel = "example.test/template-label" // changed by metadata-only updates

	otherHoldDelete = "example.test/other-hold-delete" // labels of edited hooks
	otherHoldUpdate = "example.test/other-hold-update"
	nobodyWarms     = "example.test/warm" // a label of a hook for which no controller acts, until the spec drops the hook

	released = "nobody"             // the label app of Pods taken away or created by users
	isDebug  = "example.test/debug" // a label of Pods created by users
)

// These environment variables contain names of optional fields of setup, separated by commas. No schedule sets a
// field named in CLONESET_MUTE, and every schedule sets a field named in CLONESET_WITH.
const (
	muteEnv = "CLONESET_MUTE"
	withEnv = "CLONESET_WITH"
)

// setup contains the properties of a schedule that do not change while it runs.
type setup struct {
	owners                           []string
	rollback, claims, gate           bool
	deleteHook, updateHook           bool
	markNotReady, onDelete, priority bool
	minReady, grace, policy          int
	termination                      int64

	// Each of these fields is set in some schedules only. CLONESET_MUTE prevents that a field is set, and
	// CLONESET_WITH sets a field.
	images, badImages                          bool // digests and tags of a shared image; images that never become ready
	scaleLimit                                 bool
	quota, denyImages, denyResize, denyDeletes bool
	relabel, force                             bool // of Pods
	mount, mountEnds                           bool // Pods of other owners that mount the claims; such Pods may end
	hookEdits, limits, toggleOnDelete          bool
	twoClaims, templates                       bool // claim templates
	reserved                                   bool // templates with keys that the controller writes
	coldHook                                   bool // a hook for which no controller acts
	agent                                      bool // node agents, and a container whose environment refers to a label
	names                                      bool // objects of other owners with the names of revisions
	recreateForClaims                          bool // the gate for recreating Pods after changed claim templates
	namesakes, mangled                         bool // Pods of other owners with the names of Pods, and Pods whose state is made invalid
	lostState                                  bool // Pods whose annotations a user removes or replaces
	restarts                                   bool // of containers in place
	pullsAhead                                 bool // the gate for jobs that pull images before a rollout
	endsOnDelete                               bool // the last edit leaves it to users to delete the old Pods
}

// has decides at random whether an optional field of setup is set. The rest of the schedule does not depend on
// CLONESET_MUTE.
func (w *story) has(name string, percent int) bool {
	named := func(env string) bool { return slices.Contains(strings.Split(os.Getenv(env), ","), name) }
	return (w.Chance(percent) || named(withEnv)) && !named(muteEnv)
}

func (w *story) begin() {
	r := w.Rand()
	w.setup = setup{
		owners:   []string{"web", "api"}[:1+r.IntN(4)/3],
		rollback: w.Chance(20), claims: w.has("claims", 40), gate: w.Chance(40),
		deleteHook: w.Chance(30), updateHook: w.Chance(30), markNotReady: w.Chance(30),
		onDelete: w.has("onDelete", 10), priority: w.Chance(20),
		minReady: r.IntN(4) / 3 * 5, grace: r.IntN(4) / 3 * 2, policy: r.IntN(6),
		termination: int64(r.IntN(3)),
	}
	s := &w.setup
	s.images, s.badImages = w.has("images", 40), w.has("badImages", 50) && s.images
	s.scaleLimit = w.has("scaleLimit", 30)
	s.quota, s.denyImages, s.denyResize, s.denyDeletes = w.has("quota", 12), w.has("denyImages", 12), w.has("denyResize", 12), w.has("denyDeletes", 12)
	s.relabel, s.force, s.mount = w.has("relabel", 20), w.has("force", 20), w.has("mount", 50) && s.claims
	s.mountEnds = w.Chance(50)
	s.hookEdits, s.limits, s.toggleOnDelete = w.has("hookEdits", 20), w.has("limits", 20), w.has("toggleOnDelete", 15)
	s.twoClaims, s.templates = w.has("twoClaims", 40), w.has("templates", 20)
	s.reserved, s.coldHook = w.has("reserved", 15), w.has("coldHook", 5)
	s.agent, s.names = w.has("agent", 20), w.has("names", 15)
	s.recreateForClaims = w.has("recreateForClaims", 50) && s.templates
	s.namesakes, s.mangled, s.endsOnDelete = w.has("namesakes", 15) && s.claims, w.has("mangled", 10), w.has("endsOnDelete", 8)
	s.lostState = w.has("lostState", 15)
	w.policies = w.drawPolicies()
	w.Logf("%+v, policies %+v", w.setup, w.policies)
	w.publishImages()
	for _, name := range w.setup.owners {
		w.createOwner(name)
	}
	s.restarts, s.pullsAhead = w.has("restarts", 35), w.has("pullsAhead", 30)
}

// anyOwner returns the name of a random CloneSet.
func (w *story) anyOwner() string { return w.setup.owners[w.Rand().IntN(len(w.setup.owners))] }

// cloneSet reads a CloneSet, or returns nil if the CloneSet is missing.
func (w *story) cloneSet(name string) *v1beta1.CloneSet {
	var cs v1beta1.CloneSet
	if err := w.User.Get(context.Background(), types.NamespacedName{Namespace: namespace, Name: name}, &cs); err != nil {
		return nil
	}
	return &cs
}

func (w *story) createOwner(name string) {
	labels := map[string]string{"app": name}
	cs := &v1beta1.CloneSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: v1beta1.CloneSetSpec{
			Replicas: ptr.To(int32(w.Rand().IntN(6))), Selector: &metav1.LabelSelector{MatchLabels: labels},
			MinReadySeconds: int32(w.setup.minReady),
			UpdateStrategy: v1beta1.CloneSetUpdateStrategy{Type: v1beta1.RollingUpdate, RollingUpdate: &v1beta1.RollingUpdateCloneSet{
				PodUpdatePolicy: w.policy(), MaxUnavailable: ptr.To(intstr.FromInt32(int32(w.Rand().IntN(3)))), MaxSurge: ptr.To(intstr.FromInt32(int32(w.Rand().IntN(3)))),
				InPlaceUpdateStrategy: &pub.InPlaceUpdateStrategy{GracePeriodSeconds: int32(w.setup.grace)},
			}},
			ScaleStrategy:        v1beta1.CloneSetScaleStrategy{EnablePVCReuse: w.Chance(50)},
			Lifecycle:            w.lifecycle(),
			RevisionHistoryLimit: ptr.To(int32(w.Rand().IntN(3))),
		},
	}
	if w.setup.claims {
		cs.Spec.VolumeClaimTemplates = claimTemplates([]string{"data", "logs"}[:1+ord(w.setup.twoClaims)]...)
	}
	if w.setup.scaleLimit && w.Chance(70) {
		cs.Spec.ScaleStrategy.MaxUnavailable = w.scaleLimit()
	}
	if w.setup.onDelete {
		cs.Spec.UpdateStrategy.Type = v1beta1.OnDelete
	}
	if w.setup.priority {
		cs.Spec.UpdateStrategy.RollingUpdate.PriorityStrategy = &pub.PriorityStrategy{
			OrderPriority: []pub.OrderPriorityTerm{{OrderedKey: apps.LabelInstanceID}},
		}
	}
	w.fillTemplate(name, &cs.Spec.Template)
	if w.setup.badImages && w.setup.scaleLimit && w.Chance(50) { // no Pod is available yet, and only an update can repair the image
		c := &cs.Spec.Template.Spec.Containers[0]
		c.Image = "example.test/" + c.Name + brokenTag
	}
	w.Logf("user: create CloneSet %s, replicas %d", name, *cs.Spec.Replicas)
	if err := w.User.Create(context.Background(), cs); err != nil {
		w.Failf("story", "creating CloneSet %s: %v", name, err)
	}
}

func (w *story) fillTemplate(name string, t *corev1.PodTemplateSpec) {
	t.Labels = map[string]string{"app": name, templateLabel: "1"}
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
	if w.setup.agent {
		t.Spec.Containers[0].Env = []corev1.EnvVar{templateEnv()}
	}
}

func (w *story) policy() v1beta1.CloneSetPodUpdatePolicy {
	switch w.setup.policy {
	case 0:
		return v1beta1.ReCreate
	case 1:
		return v1beta1.InPlaceOnly
	default:
		return v1beta1.InPlaceIfPossible
	}
}

func (w *story) lifecycle() *pub.Lifecycle {
	if !w.setup.deleteHook && !w.setup.updateHook && !w.setup.coldHook {
		return nil
	}
	l := &pub.Lifecycle{}
	if w.setup.coldHook {
		l.PreNormal = &pub.LifecycleHook{LabelsHandler: map[string]string{nobodyWarms: "true"}}
	}
	if w.setup.deleteHook {
		l.PreDelete = &pub.LifecycleHook{LabelsHandler: map[string]string{holdDelete: "true"}, MarkPodNotReady: w.setup.markNotReady}
	}
	if w.setup.updateHook {
		l.InPlaceUpdate = &pub.LifecycleHook{FinalizersHandler: []string{holdUpdate}, MarkPodNotReady: w.setup.markNotReady}
	}
	return l
}

// act edits a CloneSet, changes a Pod, or acts for a Pod as the controller that handles lifecycle hooks.
func (w *story) act() {
	if w.setup.restarts && w.Chance(30) {
		w.restartStep()
		return
	}
	hooks := w.setup.deleteHook || w.setup.updateHook
	switch n := w.Rand().IntN(100); {
	case n%4 == 0 && w.setup.agent:
		if pod := w.AnyPod(); pod != nil {
			w.agent(pod)
		}
		return
	case n < 44 && hooks:
		if pod := w.AnyPod(); pod != nil {
			w.honour(pod)
		}
		return
	case n < 7 || n >= 93:
		w.userPodStep()
		return
	case n == 92:
		w.deleteOwner(w.anyOwner())
		return
	case n > 87 && (w.setup.quota || w.setup.denyImages || w.setup.denyResize || w.setup.denyDeletes):
		w.policyStep()
		return
	}
	name := w.anyOwner()
	cs := w.cloneSet(name)
	if cs == nil {
		w.createOwner(name)
		return
	}
	what := w.edit(cs)
	w.Logf("user: %s of %s", what, name)
	if err := w.User.Update(context.Background(), cs); err != nil {
		w.Failf("story", "user: %s: %v", what, err)
	}
}

// restartStep requests a restart of containers, or makes the agents work.
func (w *story) restartStep() {
	cs := w.cloneSet(w.anyOwner())
	if cs == nil || w.Chance(60) {
		w.agents.Step(context.Background())
		return
	}
	w.agents.Ask(context.Background(), cs)
	if err := w.User.Update(context.Background(), cs); err != nil {
		w.Failf("story", "user: restart: %v", err)
	}
}

// edit changes the spec, and returns a description.
func (w *story) edit(cs *v1beta1.CloneSet) string {
	r := w.Rand()
	t, ru := &cs.Spec.Template, cs.Spec.UpdateStrategy.RollingUpdate
	container := &t.Spec.Containers[r.IntN(2)]
	if rare := w.rareEdits(); len(rare) > 0 && w.Chance(10+5*len(rare)) {
		return rare[r.IntN(len(rare))](cs)
	}
	switch n := r.IntN(100); {
	case n < 30:
		container.Image = w.image(container.Name)
		return "image " + container.Image
	case n < 32 && w.setup.reserved:
		return w.editReserved(t)
	case n < 38:
		t.Labels[templateLabel] = fmt.Sprint(1 + r.IntN(3))
		return "label " + t.Labels[templateLabel]
	case n < 48:
		container.Resources = corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(fmt.Sprintf("%d00m", 1+r.IntN(3)))}}
		return "resources"
	case n < 53:
		container.Env = slices.DeleteFunc(container.Env, func(e corev1.EnvVar) bool { return e.Name == "A" })
		container.Env = append(container.Env, corev1.EnvVar{Name: "A", Value: fmt.Sprint(r.IntN(2))})
		return "env"
	case n < 68:
		cs.Spec.Replicas = ptr.To(int32(r.IntN(6)))
		return fmt.Sprintf("replicas %d", *cs.Spec.Replicas)
	case n < 76:
		ru.Partition = ptr.To(intstr.FromInt32(int32(r.IntN(4))))
		if w.Chance(40) {
			ru.Partition = ptr.To(intstr.FromString(fmt.Sprintf("%d%%", 10*r.IntN(11))))
		}
		return "partition " + ru.Partition.String()
	case n < 82:
		ru.MaxUnavailable = ptr.To(intstr.FromInt32(int32(r.IntN(4))))
		if w.Chance(40) {
			ru.MaxUnavailable = ptr.To(intstr.FromString(fmt.Sprintf("%d%%", 10*r.IntN(11))))
		}
		return "maxUnavailable " + ru.MaxUnavailable.String()
	case n < 88:
		ru.MaxSurge = ptr.To(intstr.FromInt32(int32(r.IntN(3))))
		return "maxSurge " + ru.MaxSurge.String()
	case n < 92:
		ru.Paused = !ru.Paused
		return fmt.Sprintf("paused %v", ru.Paused)
	case n < 95:
		cs.Spec.Lifecycle = nil
		if w.Chance(60) {
			cs.Spec.Lifecycle = w.lifecycle()
		}
		return fmt.Sprintf("lifecycle %v", cs.Spec.Lifecycle != nil)
	case n < 97:
		cs.Spec.ScaleStrategy.EnablePVCReuse = !cs.Spec.ScaleStrategy.EnablePVCReuse
		return "claim reuse"
	default:
		if pod := w.AnyPod(); pod != nil {
			cs.Spec.ScaleStrategy.PodsToDelete = append(cs.Spec.ScaleStrategy.PodsToDelete, pod.Name)
		}
		return fmt.Sprintf("podsToDelete %v", cs.Spec.ScaleStrategy.PodsToDelete)
	}
}

func (w *story) userPodStep() {
	pod := w.AnyPod()
	if pod == nil {
		return
	}
	switch {
	case w.setup.namesakes && w.Chance(20):
		w.takePodName(pod)
		return
	case w.setup.mangled && w.Chance(30):
		w.mangle(pod)
		return
	case w.setup.lostState && w.Chance(60):
		w.LoseState(apps.AnnotationInPlaceUpdateState, apps.AnnotationInPlaceUpdateGrace)
		return
	case w.setup.relabel && w.Chance(20):
		w.relabelPod(pod)
		return
	case w.setup.mount && w.Chance(30):
		w.mountClaims(pod)
		return
	case w.setup.force && w.Chance(30):
		w.forceDelete(pod)
		return
	case w.Chance(50):
		w.Logf("user: delete %s", pod.Name)
		_ = w.User.Delete(context.Background(), pod.DeepCopy())
		return
	}
	w.Logf("user: specified-delete on %s", pod.Name)
	w.change(pod, func(p *corev1.Pod) { p.Labels[apps.LabelSpecifiedDelete] = "true" })
}

// change updates a copy of a Pod as a user.
func (w *story) change(pod *corev1.Pod, f func(*corev1.Pod)) {
	fresh := pod.DeepCopy()
	f(fresh)
	if err := w.User.Update(context.Background(), fresh); err != nil {
		w.Failf("story", "changing Pod %s: %v", pod.Name, err)
	}
}

// deleteOwner deletes a CloneSet. A later step creates a CloneSet of the same name.
func (w *story) deleteOwner(name string) {
	if w.Chance(70) {
		return
	}
	w.Logf("user: delete CloneSet %s", name)
	_ = w.User.Delete(context.Background(), &v1beta1.CloneSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}})
}

// settle edits the specs so that the controller can reach the wanted state.
func (w *story) settle() {
	w.policies = policies{}
	for range 3 * w.Rand().IntN(2) { // sometimes the last edit is made when no work is left
		w.Nodes.Settle()
		w.CatchUp()
	}
	w.senseless = w.Chance(5)
	for _, name := range w.setup.owners {
		if w.cloneSet(name) == nil {
			w.createOwner(name)
		}
		cs := w.cloneSet(name)
		ru := cs.Spec.UpdateStrategy.RollingUpdate
		cs.Spec.UpdateStrategy.Type = v1beta1.RollingUpdate
		if w.setup.endsOnDelete {
			cs.Spec.UpdateStrategy.Type, ru.Partition = v1beta1.OnDelete, nil
		}
		ru.Paused = false
		ru.MaxUnavailable = ptr.To(intstr.FromInt32(1))
		if w.senseless {
			ru.MaxUnavailable = ptr.To(intstr.FromString("many")) // stored without admission
		}
		w.mendImages(cs)
		if w.setup.coldHook && cs.Spec.Lifecycle != nil {
			cs.Spec.Lifecycle.PreNormal = nil
		}
		if ru.PodUpdatePolicy == v1beta1.InPlaceOnly {
			ru.PodUpdatePolicy = v1beta1.InPlaceIfPossible
		}
		if w.setup.restarts && w.Chance(70) {
			w.agents.Ask(context.Background(), cs)
		}
		if err := w.User.Update(context.Background(), cs); err != nil {
			w.Failf("story", "the last edit: %v", err)
		}
	}
}

// outside does the work of all other clients and agents on all Pods. At the end, users may delete the Pods with which
// they inspected claims.
func (w *story) outside() bool {
	changed := w.honourAll()
	changed = w.agentAll() || changed
	changed = w.agents.Step(context.Background()) || changed
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		if w.setup.mountEnds && w.Over() && pod.Labels[isDebug] != "" && pod.DeletionTimestamp == nil && w.Chance(10) {
			w.forceDelete(pod)
			changed = true
		}
	}
	return w.setup.endsOnDelete && w.Over() && w.deleteOld() || changed
}

// deleteOld deletes outdated Pods as a user, which OnDelete requires.
func (w *story) deleteOld() (changed bool) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		ref := metav1.GetControllerOfNoCopy(pod)
		if ref == nil || pod.DeletionTimestamp != nil || lifecycle.State(pod.Labels[apps.LabelLifecycleState]) != lifecycle.Normal {
			continue
		}
		cs := w.cloneSet(ref.Name)
		if cs != nil && cs.UID == ref.UID && cs.Status.ObservedGeneration == cs.Generation && !revision.Same(pod.Labels[apps.LabelRevision], cs.Status.UpdateRevision) {
			w.Logf("user: delete %s, which is old", pod.Name)
			_ = w.User.Delete(context.Background(), pod.DeepCopy())
			changed = true
		}
	}
	return changed
}

// honourAll acts for all Pods as the controller that handles lifecycle hooks.
func (w *story) honourAll() (changed bool) {
	for _, pod := range faultapi.All[*corev1.Pod](w.Server) {
		changed = w.honour(pod) || changed
	}
	return changed
}

// honour removes or adds the labels and finalizers of a Pod's hooks, as the Pod's lifecycle state requires, and
// reports whether there was work to do.
func (w *story) honour(pod *corev1.Pod) bool {
	state := lifecycle.State(pod.Labels[apps.LabelLifecycleState])
	held := hasAny(pod, holdDelete, otherHoldDelete)
	bound := controllerutil.ContainsFinalizer(pod, holdUpdate) || hasAny(pod, otherHoldUpdate)
	alive := pod.DeletionTimestamp == nil
	preDelete, inPlace := w.hooks(pod)
	switch {
	case controllerutil.ContainsFinalizer(pod, holdUpdate) && !alive, state == lifecycle.PreparingUpdate && bound:
		w.Logf("hook: let %s go (%s)", pod.Name, state)
		w.change(pod, func(p *corev1.Pod) { controllerutil.RemoveFinalizer(p, holdUpdate); delete(p.Labels, otherHoldUpdate) })
	case state == lifecycle.PreparingDelete && held:
		w.Logf("hook: let %s be deleted", pod.Name)
		w.change(pod, func(p *corev1.Pod) { delete(p.Labels, holdDelete); delete(p.Labels, otherHoldDelete) })
	case alive && lacks(pod, inPlace) && (state == lifecycle.Updated || state == lifecycle.Normal):
		w.Logf("hook: hold %s again", pod.Name)
		w.change(pod, func(p *corev1.Pod) { hold(p, inPlace) })
	case alive && lacks(pod, preDelete) && (state == lifecycle.PreparingNormal || state == lifecycle.Normal):
		w.Logf("hook: hold %s against deletion again", pod.Name)
		w.change(pod, func(p *corev1.Pod) { hold(p, preDelete) })
	default:
		return false
	}
	return true
}

// hooks returns the hooks that hold a Pod: the present hooks of its CloneSet, or the schedule's first hooks if the
// CloneSet has none.
func (w *story) hooks(pod *corev1.Pod) (preDelete, inPlace *pub.LifecycleHook) {
	l := w.lifecycle()
	if ref := metav1.GetControllerOfNoCopy(pod); ref != nil && w.setup.hookEdits {
		if cs := w.cloneSet(ref.Name); cs != nil && cs.Spec.Lifecycle != nil {
			l = cs.Spec.Lifecycle
		}
	}
	if l == nil {
		return nil, nil
	}
	return l.PreDelete, l.InPlaceUpdate
}

func hasAny(pod *corev1.Pod, labels ...string) bool {
	return slices.ContainsFunc(labels, func(label string) bool { _, ok := pod.Labels[label]; return ok })
}

// lacks reports whether the labels and finalizers of a hook are missing on a Pod.
func lacks(pod *corev1.Pod, hook *pub.LifecycleHook) bool {
	if hook == nil {
		return false
	}
	for label := range hook.LabelsHandler {
		if !hasAny(pod, label) {
			return true
		}
	}
	return slices.ContainsFunc(hook.FinalizersHandler, func(f string) bool { return !controllerutil.ContainsFinalizer(pod, f) })
}

func hold(pod *corev1.Pod, hook *pub.LifecycleHook) {
	maps.Copy(pod.Labels, hook.LabelsHandler)
	for _, f := range hook.FinalizersHandler {
		controllerutil.AddFinalizer(pod, f)
	}
}

func ord(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

// isAvailable reports whether a Pod is available by the rules of the CloneSet.
func isAvailable(cs *v1beta1.CloneSet, pod *corev1.Pod, now time.Time) bool {
	ok, _ := podstate.Available(pod, time.Duration(cs.Spec.MinReadySeconds)*time.Second, now)
	return ok && podstate.IsActive(pod) && podstate.GateOpen(pod, apps.ConditionInPlaceUpdateReady) &&
		lifecycle.State(pod.Labels[apps.LabelLifecycleState]).Available()
}
