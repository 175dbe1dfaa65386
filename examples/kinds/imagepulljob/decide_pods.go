package imagepulljob

import (
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
)

// isOfJob reports whether an ImagePullJob controls a Pod.
func isOfJob(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	return owner != nil && owner.Kind == "ImagePullJob" && strings.HasPrefix(owner.APIVersion, apps.Group+"/")
}

// lookAtPods returns the progress of the kubelet of a Node, and plans the next step for the Node's Pods. While the
// Node cannot pull, no step is planned.
func (o *observation) lookAtPods(t *target, d *decision) imagepull.Node {
	node := imagepull.Node{Name: t.Name, NotReady: t.NotReady, Standing: imagepull.Standing{State: imagepull.Unclaimed}}
	seen := kubeletpull.Observed{Node: t.Node, Pods: o.Pods[t.Name]}
	report, since, found := o.Puller.Recorded(seen, o.Settings.image, o.Now)
	if !found {
		return o.lookAtNoPod(t, d)
	}
	last := known{report, since}
	if wait, renews := o.renewal(last); renews && node.NotReady == "" {
		if wait <= 0 {
			d.Delete = append(d.Delete, seen.Pods...)
			node.Standing.State = imagepull.Done
			return node
		}
		d.wake(wait)
	}
	d.Memory.last[instanceOf(t.Node)] = last
	switch why := homeless(seen.Pods); {
	case node.NotReady != "":
	case why != nil:
		node.NotReady = o.shelter(seen, why, d)
	default:
		last = o.proceed(seen, last, d)
	}
	node.Standing = o.standing(last)
	return node
}

// shelter deletes the Pod of an earlier attempt, because that Pod may occupy resources without which the new Pod
// cannot be scheduled. If the new Pod has been unschedulable for a minute, the new Pod is deleted too, and notReady
// is the reason why the Node must wait. A Pod with a nominated Node stays: the scheduler is making room by preemption.
func (o *observation) shelter(seen kubeletpull.Observed, why *corev1.PodCondition, d *decision) (notReady string) {
	key := instanceOf(seen.Node)
	since, isKnown := o.Memory.waits[key]
	if !isKnown {
		since = o.Now
	}
	d.Memory.waits[key] = since
	left := since.Add(patience).Sub(o.Now)
	if slices.ContainsFunc(seen.Pods, func(pod *corev1.Pod) bool { return pod.Status.NominatedNodeName != "" }) {
		left = max(left, patience)
	}
	for _, other := range seen.Pods {
		if other.Spec.NodeName != "" || left <= 0 {
			d.Delete = append(d.Delete, other)
		}
	}
	if left > 0 {
		d.wake(left)
		return ""
	}
	delete(d.Memory.waits, key)
	notReady = "the Pod to pull cannot be scheduled: " + why.Message
	d.Memory.full[key] = refusal{o.Now, notReady}
	d.wake(fullFor)
	return notReady
}

// begin plans the first Pod on a Node whose kubelet pulls, or the next Pod after the scheduler had no room for a Pod.
func (o *observation) begin(t *target, d *decision) {
	seen, key := kubeletpull.Observed{Node: t.Node, Pods: o.Pods[t.Name]}, instanceOf(t.Node)
	if last, isKnown := d.Memory.last[key]; isKnown {
		o.proceed(seen, known{last.report, o.Now}, d)
		return
	}
	reports := o.step(seen, o.wants(0, o.Now), nil, d)
	d.Memory.last[key] = known{reports[0], o.Now}
}

func (o *observation) step(seen kubeletpull.Observed, wants []imagepull.Want, before []imagepull.Report, d *decision) []imagepull.Report {
	step := o.Puller.Next(seen, wants, before, o.Now)
	d.Change, d.Create, d.Delete = append(d.Change, step.Change...), append(d.Create, step.Create...), append(d.Delete, step.Delete...)
	if reports := step.Reports; len(reports) != 1 || reports[0].Phase != imagepull.Succeeded && reports[0].Phase != imagepull.Failed {
		d.wake(step.After)
	}
	return step.Reports
}

// wants returns what the job's NodeImage would contain if an agent pulled: a list with one Want for the image.
func (o *observation) wants(round int64, since time.Time) []imagepull.Want {
	claim := imagepull.Claim{Owner: owner(o.Job), Round: round, Since: since, Policy: o.Settings.policy}
	return []imagepull.Want{{Image: o.Settings.image, Round: round, Claims: []imagepull.Claim{claim}}}
}

// renewal returns the time until a job of type Never with the pull policy Always must pull again; renews is false for
// other jobs, and during a pull. Such a job pulls again each day, through kubelets as through agents.
func (o *observation) renewal(last known) (wait time.Duration, renews bool) {
	policy := &o.Settings.policy
	isOver := last.report.Phase == imagepull.Succeeded || last.report.Phase == imagepull.Failed
	if !isOver || !o.Settings.rules.Endless || !policy.Always || policy.TTL == nil {
		return 0, false
	}
	return last.since.Add(*policy.TTL).Sub(o.Now), true
}

// homeless returns the condition of a Pod that cannot be scheduled; nil if each Pod has a Node or may get a Node soon.
func homeless(pods []*corev1.Pod) *corev1.PodCondition {
	for _, pod := range pods {
		for i := range pod.Status.Conditions {
			c := &pod.Status.Conditions[i]
			if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable && pod.Spec.NodeName == "" && pod.DeletionTimestamp == nil {
				return c
			}
		}
	}
	return nil
}

// tidyPods plans the deletion of Pods that are not needed: Pods for another image, Pods on a Node that is not
// selected or whose agent pulls, and Pods of a job that has ended. After the end of the job, the Pod of a successful
// pull stays for the same time as a request for the image in a NodeImage, because the kubelet does not delete an
// image in use.
func (o *observation) tidyPods(targets map[string]*target, d *decision) {
	if d.Step.State != completion.Running {
		d.Change, d.Create, d.Delete = nil, nil, nil
	}
	selected := sets.New(o.Selected...)
	for _, node := range slices.Sorted(maps.Keys(o.Pods)) {
		isHeld := d.Step.State != completion.Running && o.holds(node, d)
		for _, pod := range o.Pods[node] {
			_, image, _ := o.Puller.Holding(pod)
			t, isNeeded := targets[node], isHeld
			if d.Step.State == completion.Running {
				isNeeded = t != nil && t.Node != nil || t == nil && selected.Has(node) && pod.Spec.NodeName != "" // the cache lacks the Node
			}
			if !isNeeded || image != o.Settings.image {
				d.Delete = append(d.Delete, pod)
			}
		}
	}
	d.Delete = slices.DeleteFunc(d.Delete, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp != nil })
	slices.SortFunc(d.Delete, func(a, b *corev1.Pod) int { return strings.Compare(a.Name, b.Name) })
	d.Delete = slices.CompactFunc(d.Delete, func(a, b *corev1.Pod) bool { return a.Name == b.Name })
}

// holds reports whether a Pod on a Node must still keep its image in use after the end of the job.
func (o *observation) holds(node string, d *decision) bool {
	seen := kubeletpull.Observed{Node: &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}}, Pods: o.Pods[node]}
	report, since, found := o.Puller.Recorded(seen, o.Settings.image, o.Now)
	if !found || report.Phase != imagepull.Succeeded {
		return false
	}
	left, after := imagepull.Sweep(o.wants(report.Round, since), []imagepull.Report{report}, func(imagepull.Owner) bool { return true }, o.Now)
	if len(left) == 0 {
		return false
	}
	d.wake(after)
	// Pods of earlier attempts keep no image in use and are deleted.
	d.Delete = append(d.Delete, o.Puller.Next(seen, left, []imagepull.Report{report}, o.Now).Delete...)
	for _, pod := range seen.Pods {
		if pullsAlways(pod) {
			d.Delete = append(d.Delete, pod)
		}
	}
	return true
}

// pullsAlways reports whether the kubelet pulls the image again each time it synchronizes the Pod.
func pullsAlways(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.Image != nil && v.Image.PullPolicy == corev1.PullAlways })
}
