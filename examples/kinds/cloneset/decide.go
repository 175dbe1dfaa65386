package cloneset

import (
	"errors"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/predownload"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// observation contains all inputs of a reconciliation.
type observation struct {
	cs              *v1beta1.CloneSet
	owner           metav1.OwnerReference
	settings        *settings
	pods            *podcontrol.Set
	claims          []*corev1.PersistentVolumeClaim
	history         *revision.History
	current, update *appsv1.ControllerRevision
	// unborn are the names of Pods whose creation failed after their PersistentVolumeClaims were created. The claims
	// are kept for these Pods. refused are the names of Pods that the API server has refused.
	unborn  sets.Set[string]
	refused []string
	world   world
	restart *restart.View
	// downloads is nil if no image is pulled before a rollout.
	downloads *predownload.View

	formerClaims *pvc.Former // set by former
}

// world contains the functions by which a decision looks up further objects. During a decision, the results for an
// object do not change.
type world struct {
	pod        func(name string) (*corev1.Pod, bool)
	claim      func(name string) (*corev1.PersistentVolumeClaim, bool)
	users      func(*corev1.PersistentVolumeClaim) []*corev1.Pod
	nodeLabels func(node string) (map[string]string, bool)
	plan       func(from, to *appsv1.ControllerRevision) *inplaceupdate.Plan
	rest       func(*podcontrol.Pod) time.Duration
	busy       func(*corev1.Pod) bool
	newID      func() string
}

// todo says what a reconciliation must do. The steps are carried out in the order of the fields, up to and including
// the first step that changes an object.
type todo struct {
	handOver     []pvc.Transfer
	deleteClaims []*corev1.PersistentVolumeClaim
	missing      []*corev1.PersistentVolumeClaim // missing claims of existing Pods that cannot start without them
	cancel       []*corev1.Pod
	// createOld and create are the names of Pods to create at the current and at the update revision.
	createOld, create []string
	// blocked contains the reasons why Pods of the current revision cannot be created.
	blocked reason.List
	podcontrol.Choice
	// target is the revision to which Pods are updated.
	target *appsv1.ControllerRevision
	// limits contains the reasons why Pods cannot be created. enough is true if as many Pods exist as are wanted.
	limits reason.List
	enough bool
	// waits contains what new Pods wait for: deleted Pods whose claims the new Pods will use, and Pods whose claims
	// are missing. The rest of the status does not show these reasons.
	waits    reason.List
	restart  *restart.Plan
	download *predownload.Plan
}

// decide plans a whole reconciliation. The decision depends on o alone.
func decide(o *observation) *todo {
	t := &todo{target: o.update}
	t.handOver, t.deleteClaims = o.decideClaims()
	t.missing = o.pods.MissingClaims(kruise.PerPass, o.missingClaims)
	if o.settings.claimsCount {
		t.waits = o.pods.LackedClaims(o.cs.Spec.VolumeClaimTemplates)
	}
	t.cancel = o.pods.ChooseCancellations(o.spec(), o.settings.rules.Hooks)
	scale, orders := o.step(o.settings.preparingIsUpdated), podcontrol.Orders{
		Priority: o.settings.priority, Scatter: o.settings.scatter, Busy: o.world.busy, Rest: o.world.rest,
		Constraints: o.cs.Spec.Template.Spec.TopologySpreadConstraints, NodeLabels: o.world.nodeLabels,
	}
	t.limits = scale.Limits
	if t.enough = scale.Create == 0 && !errors.Is(t.limits, rollout.ScaleUpLimited); scale.Create > 0 {
		names, awaited := o.newNames(scale.Create)
		t.waits = append(t.waits, awaited...)
		t.createOld, t.create = names[:min(scale.CreateOld, len(names))], names[min(scale.CreateOld, len(names)):]
		t.createOld = slices.DeleteFunc(t.createOld, func(name string) bool {
			_, err := o.history.ClaimTemplatesAt(o.current, name, o.former())
			if err != nil && t.blocked == nil { // the error would be the same for all names
				t.blocked.Add(revision.ClaimTemplateUnknown, err)
			}
			return err != nil
		})
	}
	t.Choice = o.pods.ChooseDeletions(scale, orders)
	t.restart = restart.Decide(o.restart, o.pods, func() restart.Rules { return o.settings.restartRules(o.pods) })
	t.download = predownload.Decide(o.downloads, o.pods, o.downloadRules)
	step := o.step(false)
	if t.Back = step.Back; t.Back {
		t.target = o.current
	}
	if o.settings.updates {
		updates := o.pods.ChooseUpdates(step, orders)
		t.Settle, t.Update = updates.Settle, updates.Update
		return t
	}
	// Settle contains Pods in the lifecycle state PreparingUpdate that return into service without an update: while
	// updates are paused, only Pods that are at their final revision already; with OnDelete, all Pods in this state.
	t.Settle = o.pods.Select(func(pod *podcontrol.Pod) bool {
		return pod.State == lifecycle.PreparingUpdate && (pod.Updated != t.Back || o.settings.onDelete)
	})
	return t
}

// spec returns the rollout's spec, completed by the values that depend on the revisions.
func (o *observation) spec() rollout.Spec {
	spec := o.settings.rollout
	spec.OneRevision = o.current == o.update
	return spec
}

// step plans the next step of the rollout.
func (o *observation) step(preparingIsUpdated bool) rollout.Step {
	spec := o.spec()
	spec.InPlace = spec.MaxSurge > 0 && o.settings.rules.Policy != podcontrol.Recreate && o.pods.WhollyInPlace(func(label string) *inplaceupdate.Plan {
		return o.world.plan(o.history.Find(label), o.update)
	})
	return rollout.Plan(spec, o.pods.Counts(preparingIsUpdated))
}

// downloadRules returns the rules by which images are pulled before the rollout.
func (o *observation) downloadRules() predownload.Rules {
	s := o.settings
	atOnce := s.rollout.Partition == 0 && s.rollout.MaxUnavailable >= s.rollout.Replicas
	return predownload.Rules{
		Settings: s.download, Replicas: s.rollout.Replicas,
		IsShort: atOnce || s.rollout.Replicas <= predownload.Few || s.onDelete || s.rules.Policy == podcontrol.Recreate,
		InPlace: func(pod *corev1.Pod) bool {
			return o.world.plan(o.history.Find(pod.Labels[apps.LabelRevision]), o.update).Possible()
		},
		Order: func() []*corev1.Pod { return o.pods.Order(s.priority, s.scatter) },
	}
}

// isOver reports whether exactly the wanted number of Pods exists, all at the update revision.
func (o *observation) isOver() bool {
	outdated := func(pod podcontrol.Pod) bool { return !pod.Updated }
	return len(o.pods.Active) == o.settings.rollout.Replicas && !slices.ContainsFunc(o.pods.Active, outdated)
}

func podName(cs *v1beta1.CloneSet, id string) string { return cs.Name + "-" + id }

// claimsOf returns the input of package pvc about the claims of a CloneSet's Pods.
func (w *world) claimsOf(cs *v1beta1.CloneSet) pvc.Known {
	return pvc.Known{Owner: cs.UID, Pod: w.pod, Users: w.users, PodOf: func(claim *corev1.PersistentVolumeClaim) string {
		if id := claim.Labels[apps.LabelInstanceID]; id != "" {
			return podName(cs, id)
		}
		return ""
	}}
}

// decideClaims decides which claims get another owner, and which claims are deleted. If the spec does not reuse
// claims, a Pod that is no longer active becomes the owner of its claims, and claims that no Pod uses are deleted.
func (o *observation) decideClaims() (handOver []pvc.Transfer, remove []*corev1.PersistentVolumeClaim) {
	if len(o.claims) == 0 {
		return nil, nil
	}
	known := o.world.claimsOf(o.cs)
	if handOver = known.Release(o.claims); len(handOver) == 0 && !o.cs.Spec.ScaleStrategy.EnablePVCReuse {
		handOver, remove = known.Lost(o.claims, o.names().Has, o.pods.Inactive, o.unborn.Has)
	}
	return handOver[:min(len(handOver), kruise.PerPass)], remove[:min(len(remove), kruise.PerPass)]
}

// former returns an object that finds the claim templates of revisions in which another controller has not recorded
// any.
func (o *observation) former() *pvc.Former {
	if o.formerClaims == nil {
		o.formerClaims = &pvc.Former{Today: o.cs.Spec.VolumeClaimTemplates, Claim: o.world.claim, Pods: o.pods.Names}
	}
	return o.formerClaims
}

// claimTemplatesOf returns the claim templates recorded in the revision of a Pod.
func (o *observation) claimTemplatesOf(pod *corev1.Pod) []corev1.PersistentVolumeClaim {
	return o.history.ClaimTemplatesOf(pod.Labels[apps.LabelRevision], pod.Name, o.former())
}

// missingClaims returns the claims to create, because a Pod uses the claims and none of them exists.
func (o *observation) missingClaims(pod *corev1.Pod) []*corev1.PersistentVolumeClaim {
	templates := pvc.Union(o.claimTemplatesOf(pod), o.cs.Spec.VolumeClaimTemplates)
	return pvc.MissingOf(pod, templates, o.claimLabels(pod), &o.owner, func(name string) bool { _, exists := o.world.claim(name); return exists })
}

// lacks returns the claims of the update revision that a Pod has lacked since its creation; none if missing claims do
// not recreate Pods.
func (o *observation) lacks(pod *corev1.Pod, target *appsv1.ControllerRevision) reason.List {
	if !o.settings.claimsCount || target != o.update {
		return nil
	}
	return podcontrol.LackedClaims(pod, o.cs.Spec.VolumeClaimTemplates)
}

// claimLabels returns the labels that a Pod's claims get in addition to the labels in the claim templates.
func (o *observation) claimLabels(pod *corev1.Pod) map[string]string {
	return labels.Merge(o.cs.Spec.Selector.MatchLabels, map[string]string{apps.LabelInstanceID: pod.Labels[apps.LabelInstanceID]})
}

// names returns the names of the active Pods.
func (o *observation) names() sets.Set[string] {
	out := sets.New[string]()
	for i := range o.pods.Active {
		out.Insert(podName(o.cs, o.pods.Active[i].Labels[apps.LabelInstanceID]))
	}
	return out
}

// newNames returns names for n new Pods, but at most as many names as one reconciliation may create. awaited says which
// names must not be used yet.
func (o *observation) newNames(n int) (names []string, awaited reason.List) {
	x := pvc.Names{
		Known: o.world.claimsOf(o.cs), Claims: o.claims, Taken: o.names(), Leaving: sets.New[string](),
		MayReturn: o.mayReturn, Fresh: o.freshNames(),
	}
	for _, pod := range o.pods.Inactive {
		x.Leaving.Insert(podName(o.cs, pod.Labels[apps.LabelInstanceID]))
	}
	return x.New(min(n, kruise.PerPass)), x.Awaited(n)
}

// freshNames returns a function that returns names for new Pods. The first names are those of refused Pods, because a
// WorkloadSpread may already count a Pod of this name in a subset; random names follow. No claim of another owner may
// exist for a name: a Pod with this name would mount that claim.
func (o *observation) freshNames() func() string {
	again := slices.Clone(o.refused)
	return func() string {
		for len(again) > 0 {
			name := again[0]
			if again = again[1:]; o.mayReturn(name) {
				return name
			}
		}
		for {
			if name := podName(o.cs, o.world.newID()); !o.isClaimed(name) {
				return name
			}
		}
	}
}

// mayReturn reports whether a lost Pod may be recreated under its old name, in order to use its claims again. A Pod
// listed in podsToDelete may not, because the new Pod would be deleted at once.
func (o *observation) mayReturn(pod string) bool {
	if !o.cs.Spec.ScaleStrategy.EnablePVCReuse && !o.unborn.Has(pod) || slices.Contains(o.cs.Spec.ScaleStrategy.PodsToDelete, pod) {
		return false
	}
	return !o.isClaimed(pod)
}

// isClaimed reports whether a claim for a Pod with this name belongs to another owner, for example to a deleted Pod
// that had the same name. Such a claim will be deleted with its owner.
func (o *observation) isClaimed(pod string) bool {
	templates := pvc.Union(o.cs.Spec.VolumeClaimTemplates, o.history.ClaimTemplatesOf(o.current.Name, pod, o.former()))
	return slices.ContainsFunc(templates, func(template corev1.PersistentVolumeClaim) bool {
		claim, exists := o.world.claim(pvc.Name(template.Name, pod))
		return exists && !metav1.IsControlledBy(claim, o.cs)
	})
}
