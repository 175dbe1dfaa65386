package statefulset

import (
	"math"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/adopt"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/examples/kruise/predownload"
	"github.com/workloadkit/workloadkit/examples/kruise/restart"
	"github.com/workloadkit/workloadkit/inplaceupdate"
	"github.com/workloadkit/workloadkit/lifecycle"
	"github.com/workloadkit/workloadkit/ordinals"
	"github.com/workloadkit/workloadkit/podcontrol"
	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/pvc"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/revision"
	"github.com/workloadkit/workloadkit/rollout"
	"github.com/workloadkit/workloadkit/rollout/numbered"
)

// observation contains all inputs of a reconciliation.
type observation struct {
	set             *v1beta1.StatefulSet
	settings        *settings
	pods            *podcontrol.Set
	members         *podcontrol.Numbered
	orphans         []*corev1.Pod
	history         *revision.History
	current, update *appsv1.ControllerRevision
	claims          pvc.Numbered
	formerClaims    *pvc.Former // set by former
	restarts        *restart.View
	// downloads is nil if no image is pulled before a rollout. plans returns the plan of an in-place update of a Pod.
	downloads *predownload.View
	plans     func(*corev1.Pod) *inplaceupdate.Plan
}

// todo says what a reconciliation must do. The steps are carried out in the order of the fields, up to and including
// the first step that changes an object.
type todo struct {
	release, adopt, relabel []*corev1.Pod
	own                     []pvc.Owned
	// unowned are the Pods whose claims are listed in own. Such a Pod is deleted only after the owner references of its
	// claims were written.
	unowned sets.Set[string]
	// missing are the missing claims of existing Pods: the Pods cannot start without the claims.
	missing []*corev1.PersistentVolumeClaim
	step    numbered.Step
	// create are the Pods to create, without the Pods whose creation an existing claim of another owner prevents.
	// blocked contains the reasons for the Pods that are left out.
	create  []numbered.Create
	remove  []*corev1.Pod
	cancel  []*corev1.Pod
	blocked reason.List
	// grow lists the claims to be enlarged before their Pods are updated. update lists the Pods to update whose claims
	// have the right size already. stuck says which claims cannot be changed to match their templates.
	grow   []pvc.Small
	update []*corev1.Pod
	stuck  reason.List
	// held contains the lifecycle hooks and disruption budgets for which Pods wait.
	held     reason.List
	restart  *restart.Plan
	download *predownload.Plan
}

// decide plans a whole reconciliation. The decision depends on o alone. The error says what is invalid in the spec.
func decide(o *observation) (*todo, error) {
	t := &todo{unowned: sets.New[string]()}
	t.release = slices.Concat(o.pods.NotSelected, o.members.Unnumbered)
	if err := o.decideOwnership(t); err != nil {
		return nil, err
	}
	var err error
	if t.step, err = numbered.Plan(o.settings.rollout, o.described()); err != nil {
		return nil, err
	}
	t.step.Limits = o.members.Explain(&t.step)
	t.restart = restart.Decide(o.restarts, o.pods, o.restartRules)
	t.download = predownload.Decide(o.downloads, o.pods, o.downloadRules)
	o.decideCreation(t)
	t.remove = slices.DeleteFunc(o.members.Of(t.step.Delete), func(pod *corev1.Pod) bool { return t.unowned.Has(pod.Name) })
	t.cancel = o.members.Of(t.step.Cancel)
	for _, pod := range o.members.Of(t.step.Update) {
		sizes := pvc.Sizes{}
		if o.settings.grows {
			sizes = o.claims.Sizes(pod.Name)
		}
		t.grow, t.stuck = append(t.grow, sizes.Small...), append(t.stuck, sizes.Stuck...)
		if sizes.Ready() {
			t.update = append(t.update, pod)
			// The deletion or update is cancelled, because the Pod would be out of service until its claim has the
			// right size.
		} else if p := o.pods.Of(pod); p.Leaving || p.State == lifecycle.PreparingUpdate {
			t.cancel = append(t.cancel, pod)
		}
	}
	return t, nil
}

// restartRules returns the rules for a restart: Pods restart from the highest ordinal down, and the partition excludes
// the Pods with the lowest ordinals. With OrderedReady, the next Pod restarts only when the Pod before is available.
func (o *observation) restartRules() restart.Rules {
	s := &o.settings.rollout
	rules := restart.Rules{
		Replicas: s.Wanted.Len(), MaxUnavailable: s.MaxUnavailable, Paused: s.Paused, Paths: s.Paths,
		Order: func() []*corev1.Pod { return o.members.Order(s.Unordered) },
	}
	if !s.Parallel {
		rules.MaxUnavailable = 1
	}
	rules.Skips = func(pod *corev1.Pod) bool {
		ordinal, _ := ordinals.OfPod(o.set.Name, pod)
		return !s.Wanted.Contains(ordinal)
	}
	if s.Unordered {
		rules.Partition = s.Partition
		return rules
	}
	rules.Keeps = func(pod *corev1.Pod) bool {
		ordinal, _ := ordinals.OfPod(o.set.Name, pod)
		rank, wanted := s.Wanted.Index(ordinal)
		return wanted && rank < s.Partition
	}
	return rules
}

// downloadRules returns the rules by which images are pulled before the rollout.
func (o *observation) downloadRules() predownload.Rules {
	s := &o.settings.rollout
	atOnce := s.Parallel && s.Partition == 0 && s.MaxUnavailable >= s.Wanted.Len()
	return predownload.Rules{
		Settings: o.settings.download, Replicas: s.Wanted.Len(),
		IsShort: atOnce || s.Wanted.Len() <= predownload.Few || s.OnDelete || rules(o.set).Policy == podcontrol.Recreate,
		InPlace: func(pod *corev1.Pod) bool { return o.plans(pod).Possible() },
		Order:   func() []*corev1.Pod { return o.members.Order(s.Unordered) },
	}
}

// decideCreation finds the Pods to create whose creation no existing claim prevents.
func (o *observation) decideCreation(t *todo) {
	for _, c := range t.step.Create {
		name, rev := ordinals.Name(o.set.Name, c.Ordinal), o.update
		if c.Old {
			rev = o.current
		}
		templates, err := o.history.ClaimTemplatesAt(rev, name, o.former())
		blocked := o.claims.With(templates).InTheWay(name)
		if blocked.Add(revision.ClaimTemplateUnknown, err); len(blocked) == 0 {
			t.create = append(t.create, c)
		}
		for _, why := range blocked {
			if !slices.Contains(t.blocked, why) {
				t.blocked = append(t.blocked, why)
			}
		}
	}
}

// claimsOf returns the claims of a Pod of a given name, by the claim templates of the Pod's revision.
func (o *observation) claimsOf(pod *corev1.Pod) *pvc.Numbered {
	return o.claims.With(o.history.ClaimTemplatesOf(pod.Labels[apps.LabelRevision], pod.Name, o.former()))
}

// former returns an object that finds the claim templates of revisions in which another controller has not recorded
// any.
func (o *observation) former() *pvc.Former {
	if o.formerClaims == nil {
		o.formerClaims = &pvc.Former{Today: o.claims.Templates, Claim: o.claims.Claim, Pods: o.pods.Names}
	}
	return o.formerClaims
}

// decideOwnership decides which owner references of Pods and claims must change. The decision does not depend on the
// rollout.
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
	for _, pod := range slices.Concat(o.pods.Select(func(*podcontrol.Pod) bool { return true }), o.pods.Inactive) {
		ordinal, numbered := ordinals.OfPod(o.set.Name, pod)
		if !numbered {
			continue
		}
		wanted, active := o.settings.rollout.Wanted.Contains(ordinal), o.pods.Of(pod) != nil
		claims := o.claimsOf(pod)
		// The claim templates of the spec are added, because the next Pod of the same name may use such claims.
		claims = claims.With(pvc.Union(claims.Templates, o.claims.Templates))
		owned := claims.Owned(pod.Name, pod, wanted)
		if t.own = append(t.own, owned...); len(owned) > 0 {
			t.unowned.Insert(pod.Name)
		}
		if active && o.identity(pod).Labels != nil {
			t.relabel = append(t.relabel, pod)
		}
		if active && wanted && pod.Status.Phase == corev1.PodPending {
			t.missing = append(t.missing, claims.MissingOf(pod)...)
		}
	}
	t.own, t.missing = t.own[:min(len(t.own), kruise.PerPass)], t.missing[:min(len(t.missing), kruise.PerPass)]
	return nil
}

// described returns the Pods in the form that the rules of the rollout need: a Pod whose claims are too small counts
// as outdated, and a Pod whose volumes are being resized counts as unavailable.
func (o *observation) described() []numbered.Pod {
	if !o.settings.grows {
		return o.members.Pods
	}
	members := slices.Clone(o.members.Pods)
	for i := range members {
		p := &members[i]
		sizes := o.claims.Sizes(ordinals.Name(o.set.Name, p.Ordinal))
		p.PreUpdating = p.PreUpdating || sizes.Growing && sizes.Fit() && !p.Updated
		p.Updated, p.Rest = p.Updated && sizes.Fit(), max(p.Rest, sizes.Rest)
		if len(sizes.Stuck) > 0 {
			p.Rest = math.MaxInt64
		}
		if sizes.Growing && p.Health == rollout.Available {
			p.Health, p.Starting = rollout.Unavailable, true
		}
	}
	return members
}

// identity returns a change that sets those labels with the Pod's name and ordinal that the Pod lacks.
func (o *observation) identity(pod *corev1.Pod) (change podpatch.Change) {
	index := strings.TrimPrefix(pod.Name, o.set.Name+"-")
	if pod.Labels[apps.LabelPodName] != pod.Name || o.settings.indexLabel && pod.Labels[apps.LabelPodIndex] != index {
		change.Labels = map[string]*string{apps.LabelPodName: &pod.Name}
		if o.settings.indexLabel {
			change.Labels[apps.LabelPodIndex] = &index
		}
	}
	return change
}

// prepare sets the labels that identify a new Pod.
func (o *observation) prepare(pod *corev1.Pod, _ int) {
	for key, value := range o.identity(pod).Labels {
		pod.Labels[key] = *value
	}
	pod.Spec.Hostname, pod.Spec.Subdomain = pod.Name, o.set.Spec.ServiceName
	pvc.Mount(pod, o.claimsOf(pod).Templates)
}
