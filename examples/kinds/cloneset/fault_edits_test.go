package cloneset

import (
	"context"
	"fmt"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/pub"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/testing/faultapi"
)

// rareEdits returns edits that only some schedules make, so that the failures which one kind of edit causes do not
// hide other failures.
func (w *story) rareEdits() (out []func(*v1beta1.CloneSet) string) {
	for _, e := range []struct {
		has  bool
		edit func(*v1beta1.CloneSet) string
	}{
		{w.setup.scaleLimit, w.editScaleLimit},
		{w.setup.hookEdits, w.editHooks},
		{w.setup.templates, w.editClaims},
		{w.setup.limits, w.editLimits},
		{w.setup.toggleOnDelete, w.toggleOnDelete},
		{w.setup.agent, w.editBoth},
		{w.setup.names, w.takeName},
	} {
		if e.has {
			out = append(out, e.edit)
		}
	}
	return out
}

func (w *story) editScaleLimit(cs *v1beta1.CloneSet) string {
	cs.Spec.ScaleStrategy.MaxUnavailable = w.scaleLimit()
	if w.Chance(30) {
		cs.Spec.ScaleStrategy.MaxUnavailable = nil
	}
	return fmt.Sprintf("scaleStrategy.maxUnavailable %v", cs.Spec.ScaleStrategy.MaxUnavailable)
}

// scaleLimit returns a random limit that allows Pods to be created.
func (w *story) scaleLimit() *intstr.IntOrString {
	n := w.Rand().IntN(10)
	if w.Chance(50) {
		return ptr.To(intstr.FromString(fmt.Sprintf("%d%%", 10+10*n)))
	}
	return ptr.To(intstr.FromInt32(int32(1 + n%3)))
}

// editHooks removes a hook, or changes the label of a hook. Pods that wait for the old hook continue to wait.
func (w *story) editHooks(cs *v1beta1.CloneSet) string {
	l := w.lifecycle()
	if l == nil {
		return "no hooks"
	}
	text := "hooks as before"
	switch n := w.Rand().IntN(5); {
	case n == 0:
		l.PreDelete, text = nil, "no hook against deletion"
	case n == 1:
		l.InPlaceUpdate, text = nil, "no hook against updates"
	case n == 2 && l.PreDelete != nil:
		l.PreDelete.LabelsHandler, text = map[string]string{otherHoldDelete: "true"}, "another label against deletion"
	case n == 3 && l.InPlaceUpdate != nil:
		l.InPlaceUpdate = &pub.LifecycleHook{LabelsHandler: map[string]string{otherHoldUpdate: "true"}, MarkPodNotReady: w.setup.markNotReady}
		text = "a label against updates"
	}
	cs.Spec.Lifecycle = l
	return text
}

// claimTemplates returns claim templates with the given names.
func claimTemplates(names ...string) (out []corev1.PersistentVolumeClaim) {
	for _, name := range names {
		out = append(out, corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec:       corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}},
		})
	}
	return out
}

// editClaims changes the claim templates, and perhaps the Pods' template as well.
func (w *story) editClaims(cs *v1beta1.CloneSet) string {
	sets := [][]string{nil, {"data"}, {"data", "logs"}, {"logs"}}
	names := sets[w.Rand().IntN(len(sets))]
	cs.Spec.VolumeClaimTemplates = claimTemplates(names...)
	text := ""
	if w.Chance(60) { // the Pod template may change back to an earlier template, with other claim templates
		cs.Spec.Template.Labels[templateLabel] = fmt.Sprint(1 + w.Rand().IntN(2))
		text = " and label " + cs.Spec.Template.Labels[templateLabel]
	}
	return fmt.Sprintf("claim templates %v", names) + text
}

// editLimits sets resource limits. The API server then sets the requests.
func (w *story) editLimits(cs *v1beta1.CloneSet) string {
	c := &cs.Spec.Template.Spec.Containers[w.Rand().IntN(2)]
	cpu := resource.MustParse(fmt.Sprintf("%d00m", 1+w.Rand().IntN(3)))
	c.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceCPU: cpu}}
	return "limits alone of " + c.Name + " " + cpu.String()
}

func (w *story) toggleOnDelete(cs *v1beta1.CloneSet) string {
	s := &cs.Spec.UpdateStrategy
	if s.Type = v1beta1.OnDelete; w.Chance(60) {
		s.Type = v1beta1.RollingUpdate
	}
	return "strategy " + string(s.Type)
}

// relabelPod changes the labels of a Pod so that its CloneSet no longer selects the Pod, as users do for debugging.
func (w *story) relabelPod(pod *corev1.Pod) {
	w.Logf("user: relabel %s, to have it released", pod.Name)
	w.change(pod, func(p *corev1.Pod) { p.Labels["app"] = released })
}

// mountClaims creates a Pod of another owner with the claims of the given Pod, as users do to inspect the data.
func (w *story) mountClaims(pod *corev1.Pod) {
	if len(claimsOf(pod)) == 0 {
		return
	}
	debug := debugPod(pod)
	debug.GenerateName = "debug-"
	if err := w.User.Create(context.Background(), debug); err != nil {
		w.Failf("story", "creating a Pod that uses the claims of %s: %v", pod.Name, err)
	}
	w.Logf("user: create Pod %s, which uses the claims of %s", debug.Name, pod.Name)
	if cs := w.cloneSet(pod.Labels["app"]); cs != nil && w.Chance(30) {
		w.Logf("user: podsToDelete of %s names %s", cs.Name, pod.Name)
		cs.Spec.ScaleStrategy.PodsToDelete = append(cs.Spec.ScaleStrategy.PodsToDelete, pod.Name)
		if err := w.User.Update(context.Background(), cs); err != nil {
			w.Failf("story", "podsToDelete of %s: %v", cs.Name, err)
		}
	}
}

// debugPod returns a Pod of another owner with the same claims.
func debugPod(pod *corev1.Pod) *corev1.Pod {
	debug := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Labels: map[string]string{"app": released, isDebug: "true"}},
		Spec:       *pod.Spec.DeepCopy(),
	}
	debug.Spec.NodeName = ""
	return debug
}

// takePodName replaces a Pod by a Pod of another owner with the same name and the same claims.
func (w *story) takePodName(pod *corev1.Pod) {
	if len(claimsOf(pod)) == 0 || pod.Labels[isDebug] != "" {
		return
	}
	namesake := debugPod(pod)
	namesake.Name, namesake.Spec.Volumes = pod.Name, nil
	for _, claim := range faultapi.All[*corev1.PersistentVolumeClaim](w.Server) {
		source := corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim.Name}}
		namesake.Spec.Volumes = append(namesake.Spec.Volumes, corev1.Volume{Name: claim.Name, VolumeSource: source})
	}
	w.forceDelete(pod)
	if err := w.User.Create(context.Background(), namesake); err != nil { // a finalizer may keep the old Pod
		w.Logf("user: the name %s is not free: %v", pod.Name, err)
		return
	}
	w.Logf("user: create another Pod %s, which uses all claims", namesake.Name)
}

// mangle makes the annotation with the state of a Pod's update invalid.
func (w *story) mangle(pod *corev1.Pod) {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || pod.DeletionTimestamp != nil || !podstate.IsReady(pod) || lifecycle.State(pod.Labels[apps.LabelLifecycleState]) != lifecycle.Normal {
		return
	}
	w.Logf("user: mangle the state of %s", pod.Name)
	w.change(pod, func(p *corev1.Pod) {
		metav1.SetMetaDataAnnotation(&p.ObjectMeta, apps.AnnotationInPlaceUpdateState, mangled)
	})
}

// mangled is a state that cannot be decoded.
const mangled = "{"

func isMangled(pod *corev1.Pod) bool {
	return pod.Annotations[apps.AnnotationInPlaceUpdateState] == mangled
}

// forceDelete deletes a Pod without a grace period, so the kubelet does not confirm the deletion.
func (w *story) forceDelete(pod *corev1.Pod) {
	w.Logf("user: delete %s at once", pod.Name)
	_ = w.User.Delete(context.Background(), pod.DeepCopy(), client.GracePeriodSeconds(0))
}

// editReserved adds a reserved key to the template, or removes the key again. Reserved keys are those that the
// controller writes on Pods.
func (w *story) editReserved(t *corev1.PodTemplateSpec) string {
	keys := apps.ReservedPodLabels()
	key := keys[w.Rand().IntN(len(keys))]
	if _, ok := t.Labels[key]; ok {
		delete(t.Labels, key)
		return "no reserved label " + key
	}
	t.Labels[key] = "mine"
	if w.Chance(50) {
		t.Annotations = map[string]string{apps.AnnotationInPlaceUpdateState: "garbage"}
	}
	return "reserved label " + key
}

// takeName creates an object of another owner with the name of the next revision, and then edits an image.
func (w *story) takeName(cs *v1beta1.CloneSet) string {
	c := &cs.Spec.Template.Spec.Containers[0]
	c.Image = w.image(c.Name)
	count := cs.Status.CollisionCount
	if count == nil {
		count = new(int32)
	}
	next, err := w.reconciler.Histories.Of(revision.OwnerOf(cs, w.reconciler.Cache.Kind()), count, nil).Decide(&cs.Spec.Template)
	if err != nil {
		w.Failf("story", "the next revision of %s: %v", cs.Name, err)
	}
	taken := &appsv1.ControllerRevision{ObjectMeta: metav1.ObjectMeta{Namespace: cs.Namespace, Name: next.Revision.Name}, Revision: 1}
	if err := w.User.Create(context.Background(), taken); client.IgnoreAlreadyExists(err) != nil {
		w.Failf("story", "taking the name %s: %v", taken.Name, err)
	}
	return "the name " + taken.Name + " is taken, image " + c.Image + w.renumber()
}

// renumber sometimes gives a revision the largest possible number.
func (w *story) renumber() string {
	all := faultapi.All[*appsv1.ControllerRevision](w.Server)
	if len(all) == 0 || w.Chance(50) {
		return ""
	}
	rev := all[w.Rand().IntN(len(all))].DeepCopy()
	rev.Revision = []int64{math.MaxInt64/2 - 1, math.MaxInt64 / 2, math.MaxInt64}[w.Rand().IntN(3)]
	if err := w.User.Update(context.Background(), rev); err != nil {
		w.Failf("story", "numbering %s: %v", rev.Name, err)
	}
	return fmt.Sprintf(", revision %s has the number %d", rev.Name, rev.Revision)
}
