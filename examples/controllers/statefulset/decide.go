package statefulset

import (
	"cmp"
	"maps"
	"slices"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/adopt"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/fanout"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
)

// observation is everything that a pass is decided on.
type observation struct {
	set             *v1beta1.StatefulSet
	settings        *settings
	pods            *podcontrol.Set
	members         *podcontrol.Numbered
	orphans         []*corev1.Pod
	history         *revision.History
	current, update *appsv1.ControllerRevision
	claims          pvc.Numbered
}

// todo is a whole pass as data. What comes first is done first, and what comes after it only if that has changed nothing.
type todo struct {
	release, adopt, relabel []*corev1.Pod
	own                     []pvc.Owned
	missing                 []*corev1.PersistentVolumeClaim // of Pods that exist and cannot start without them
	step                    rollout.NumberedStep
	// create are the Pods of the step but for those whose claims are in the way; blocked names those claims.
	create  []rollout.NumberedCreate
	blocked reason.List
	// grow are claims of Pods whose turn it is to be updated; update are the Pods that no claim keeps from it; stuck says which claims
	// cannot become what their templates say.
	grow   []pvc.Small
	update []*corev1.Pod
	stuck  reason.List
}

// decide decides a whole pass. It depends on its argument alone. The error says what of the spec makes no sense.
func decide(o *observation) (*todo, error) {
	t := &todo{}
	t.release = slices.Concat(o.pods.NotSelected, o.members.Unnumbered)
	if err := o.decideOwnership(t); err != nil {
		return nil, err
	}
	var err error
	if t.step, err = rollout.Numbered(o.settings.rollout, o.described()); err != nil {
		return nil, err
	}
	for _, c := range t.step.Create {
		if blocked := o.claims.InTheWay(ordinals.Name(o.set.Name, c.Ordinal)); len(blocked) > 0 {
			t.blocked = append(t.blocked, blocked...)
		} else {
			t.create = append(t.create, c)
		}
	}
	for _, pod := range o.members.Of(t.step.Update) {
		sizes := pvc.Sizes{}
		if o.settings.grows {
			sizes = o.claims.Sizes(pod.Name)
		}
		t.grow, t.stuck = append(t.grow, sizes.Small...), append(t.stuck, sizes.Stuck...)
		if sizes.Ready() {
			t.update = append(t.update, pod)
		}
	}
	return t, nil
}

// decideOwnership decides about Pods and claims without a look at the rollout.
func (o *observation) decideOwnership(t *todo) error {
	owner := adopt.Owner{UID: o.set.UID, Namespace: o.set.Namespace, Selector: o.settings.selector, Deleting: o.set.DeletionTimestamp != nil}
	split, err := adopt.Split(owner, "Pod", o.orphans, adopt.Options{Adopt: true, Match: func(pod metav1.Object) bool {
		name, _, ok := ordinals.ParseName(pod.GetName())
		return ok && name == o.set.Name
	}})
	if err != nil {
		return err
	}
	t.adopt = split.Adopt
	for i := range o.pods.Active {
		pod := o.pods.Active[i].Pod
		ordinal, numbered := ordinals.OfPod(o.set.Name, pod)
		if !numbered {
			continue
		}
		wanted := o.settings.rollout.Wanted.Contains(ordinal)
		t.own = append(t.own, o.claims.Owned(pod.Name, pod, wanted)...)
		if o.identity(pod).Labels != nil {
			t.relabel = append(t.relabel, pod)
		}
		if wanted && pod.Status.Phase == corev1.PodPending {
			t.missing = append(t.missing, o.claims.Missing(pod.Name)...)
		}
	}
	t.own, t.missing = t.own[:min(len(t.own), fanout.PerPass)], t.missing[:min(len(t.missing), fanout.PerPass)]
	slices.SortFunc(t.relabel, byName)
	return nil
}

func byName(a, b *corev1.Pod) int { return cmp.Compare(a.Name, b.Name) }

// described are the members as the rollout sees them: a Pod whose claims are too small is to be updated, and one whose volumes are growing
// does not serve as it should.
func (o *observation) described() []rollout.NumberedPod {
	if !o.settings.grows {
		return o.members.Pods
	}
	members := slices.Clone(o.members.Pods)
	for i := range members {
		p := &members[i]
		sizes := o.claims.Sizes(ordinals.Name(o.set.Name, p.Ordinal))
		p.PreUpdating = p.PreUpdating || sizes.Growing && sizes.Fit() && !p.Updated
		p.Updated, p.Hopeless = p.Updated && sizes.Fit(), p.Hopeless || len(sizes.Stuck) > 0
		if sizes.Growing && p.Health == rollout.Available {
			p.Health, p.Starting = rollout.Unavailable, true
		}
	}
	return members
}

// identity is what a Pod lacks of the labels that name it.
func (o *observation) identity(pod *corev1.Pod) (change podpatch.Change) {
	for key, value := range o.names(pod) {
		if pod.Labels[key] != value {
			if change.Labels == nil {
				change.Labels = map[string]*string{}
			}
			change.Labels[key] = &value
		}
	}
	return change
}

// names are the labels that name a Pod.
func (o *observation) names(pod *corev1.Pod) map[string]string {
	labels := map[string]string{appsv1.StatefulSetPodNameLabel: pod.Name}
	if ordinal, ok := ordinals.OfPod(o.set.Name, pod); ok && o.settings.indexLabel {
		labels[appsv1.PodIndexLabel] = strconv.Itoa(ordinal)
	}
	return labels
}

// prepare gives a new Pod its identity.
func (o *observation) prepare(pod *corev1.Pod, _ int) {
	maps.Copy(pod.Labels, o.names(pod))
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, o.set.Spec.ServiceName
	pvc.Mount(pod, o.set.Spec.VolumeClaimTemplates)
}

// isOver reports whether all Pods that are wanted are there and ready, at the update revision. It does not wait until they have been
// ready for long enough.
func (o *observation) isOver() bool {
	done := 0
	for i := range o.pods.Active {
		if p := &o.pods.Active[i]; p.Updated && p.Serves() {
			done++
		}
	}
	return !o.settings.rollout.OnDelete && done == len(o.pods.Active) && done == o.settings.rollout.Wanted.Len()
}
