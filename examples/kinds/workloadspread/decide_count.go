package workloadspread

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps"
	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
	api "github.com/workloadkit/workloadkit/examples/apis/apps/workloadspread"
	"github.com/workloadkit/workloadkit/examples/kruise"
	"github.com/workloadkit/workloadkit/nodefit"
	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/subsets"
)

// observed contains the inputs of a decision: the state of the workload that a WorkloadSpread targets, and of the
// workload's Pods.
type observed struct {
	// pods are the active Pods of the target.
	pods *crowd
	// node looks up a Node by name; nil if the Node is unknown.
	node func(name string) *corev1.Node
	// replicas is the number of wanted Pods, or nil if the number is unknown.
	replicas *int
	// versioned is passed to versionOf. latest is the version of the target's new Pods; empty if unknown.
	versioned func(kind string) bool
	latest    string
	// absent reports whether the Pod for which a place in a subset was taken will never be created; nil if this is
	// unknown.
	absent func(key string, since time.Time) bool
	// unasked is the error of the request to the API server for Pods that the cache does not show; nil for no error.
	// After an error, the reconciliation continues, and the places of these Pods stay taken.
	unasked error
	// overlap contains a reason if an older WorkloadSpread selects some of the same Pods.
	overlap reason.List
	now     time.Time
}

// written is a Pod with changes to be written.
type written struct {
	pod    *corev1.Pod
	change metadata
}

// plan contains the writes of a reconciliation, in the order of the fields.
type plan struct {
	status v1beta1.WorkloadSpreadStatus
	room   []subsets.Place
	// marks are the changes that add a mark, the annotation with the subset, to Pods created before the
	// WorkloadSpread. costs are changes of the annotation with the Pod's deletion cost.
	marks, costs []written
	// stuck lists the Pods to delete because a later subset may be able to run them.
	stuck []*corev1.Pod
	// lost contains a reason for each Pod that was not created or deleted in time. reopened are the names of subsets
	// that were closed, and in which Pods are created again.
	lost     reason.List
	reopened []string
	// requeueAfter is the time until the next reconciliation; 0 if none is needed.
	requeueAfter time.Duration
}

// counter counts the Pods of a WorkloadSpread.
type counter struct {
	*settings
	plan

	object *v1beta1.WorkloadSpread
	seen   observed
	// versions contains the active Pods by version: first the Pods with a mark (the annotation with the subset), then
	// the remaining Pods, each group sorted by name. members contains the same Pods in the form that package subsets
	// needs.
	versions map[string][]*entry
	members  map[string][]subsets.Member
}

// count computes the plan of a reconciliation.
func (s *settings) count(object *v1beta1.WorkloadSpread, seen observed) (plan, error) {
	c, err := s.tally(object, seen)
	if err != nil {
		return plan{}, err
	}
	return c.finish(), nil
}

// tally does the part of a count that depends on the places that webhooks have taken since the Pods were read. While
// tally runs, this process's webhooks cannot take places.
func (s *settings) tally(object *v1beta1.WorkloadSpread, seen observed) (*counter, error) {
	c := &counter{settings: s, object: object, seen: seen, versions: map[string][]*entry{}, members: map[string][]subsets.Member{}}
	before, err := s.places(&object.Status, seen.replicas)
	if err != nil {
		return nil, err
	}
	if err := c.sort(before, seen.pods); err != nil {
		return nil, err
	}
	conditions := c.close()
	var all []subsets.Member
	for _, members := range c.members {
		all = append(all, members...)
	}
	total := subsets.Policy{}.Count(nil, before, all, seen.now).Book // of all versions
	c.status.ObservedGeneration = object.Generation
	c.status.SubsetStatuses = conditioned(listOf(total, before, nil), conditions)
	places, err := s.places(&c.status, seen.replicas)
	if err != nil {
		return nil, err
	}
	c.room = places
	for version := range object.Status.VersionedSubsetStatuses {
		if _, ok := c.versions[version]; !ok {
			c.versions[version] = nil
		}
	}
	for _, version := range slices.Sorted(maps.Keys(c.versions)) {
		list := object.Status.VersionedSubsetStatuses[version]
		book, _ := bookOf(list).Drop(places, c.seen.pods.hasEnded) // Pods that have ended were created
		if seen.absent != nil {
			var lost reason.List
			book, lost = book.Drop(places, seen.absent)
			c.lost = append(c.lost, lost...)
		}
		tally := s.policy.Count(book, places, c.members[version], seen.now)
		c.lost = append(c.lost, tally.Lost...)
		c.wait(tally.RequeueAfter)
		awaiting(total, tally.Book)
		if len(c.versions[version]) > 0 || !tally.Book.IsIdle() {
			c.status.VersionedSubsetStatuses = with(c.status.VersionedSubsetStatuses, version, conditioned(listOf(tally.Book, places, nil), conditions))
		}
	}
	c.status.SubsetStatuses = conditioned(withoutNames(listOf(total, places, nil)), conditions)
	return c, nil
}

// withoutNames removes the names of Pods that are being created or deleted from the list for all versions, because
// the list for each version contains these names. With the names, the status would be twice as large, and each write
// twice as slow.
func withoutNames(list []v1beta1.WorkloadSpreadSubsetStatus) []v1beta1.WorkloadSpreadSubsetStatus {
	for i := range list {
		list[i].CreatingPods, list[i].DeletingPods = nil, nil
	}
	return list
}

// awaiting adds the Pods of a version that are being created or deleted to the Pods of all versions.
func awaiting(total, of subsets.Book) {
	for i := range of {
		total[i].Creating, total[i].Deleting = merged(total[i].Creating, of[i].Creating), merged(total[i].Deleting, of[i].Deleting)
	}
}

func merged(entries, more map[string]metav1.Time) map[string]metav1.Time {
	switch {
	case len(entries) == 0:
		return more
	case len(more) == 0:
		return entries
	}
	all := maps.Clone(entries)
	maps.Copy(all, more)
	return all
}

// finish adds the changes of marks and deletion costs to the plan.
func (c *counter) finish() plan {
	for _, version := range slices.Sorted(maps.Keys(c.versions)) {
		c.rank(version)
	}
	return c.plan
}

// booksOf returns the ledger, which records the taken places, for a WorkloadSpread whose Pods were never counted, or
// whose status a user has removed: Pods with a mark get places, in addition to the places that were taken since.
func (s *settings) booksOf(object *v1beta1.WorkloadSpread, before v1beta1.WorkloadSpreadStatus, seen observed) ledger {
	now := *object
	now.Status = before
	seen.pods = &crowd{marked: seen.pods.marked, members: seen.pods.members}
	counted, err := s.count(&now, seen)
	if err != nil {
		return before.VersionedSubsetStatuses
	}
	return counted.status.VersionedSubsetStatuses
}

func (c *counter) wait(after time.Duration) {
	if after > 0 && (c.requeueAfter == 0 || after < c.requeueAfter) {
		c.requeueAfter = after
	}
}

// write adds a change to the list. If the list is full, the next reconciliation makes the change.
func (c *counter) write(to *[]written, pod *corev1.Pod, change metadata) {
	if len(*to) < kruise.PerPass {
		*to = append(*to, written{pod, change})
		return
	}
	c.wait(time.Second)
}

// sort finds the subset of each Pod, and adds marks (annotations with the subset) for the Pods without a mark. Pods
// with a mark keep their subsets, and count for the maximums first.
func (c *counter) sort(places []subsets.Place, of *crowd) error {
	taken := map[[2]string]int{} // number of taken places by version and subset
	for version, entries := range of.marked {
		c.versions[version], c.members[version] = slices.Clip(entries), slices.Clip(of.members[version])
		for _, e := range entries {
			taken[[2]string{version, e.subset}]++
		}
	}
	if len(of.others) > 0 {
		c.addAwaited(taken, of)
	}
	names := c.names()
	matcher, err := subsets.NewMatcher(names, func(*corev1.Pod) string { return "" }, func(pod *corev1.Pod, name string) subsets.Fit {
		i := slices.Index(names, name)
		fit, place := fitOf(pod, &c.subsets[i], c.seen.node), places[i]
		fit.Room = !place.Closed && (place.Max == subsets.Unlimited || taken[[2]string{versionOf(pod, c.seen.versioned), name}] < place.Max)
		return fit
	})
	if err != nil {
		return err
	}
	whole := !strings.EqualFold(c.object.Annotations[apps.AnnotationIgnoreExistingPodsMetadata], "true")
	for _, e := range of.others {
		settled := *e
		settled.subset, _ = matcher.Of(e.pod)
		taken[[2]string{e.version, settled.subset}]++
		c.versions[e.version] = append(c.versions[e.version], &settled)
		c.members[e.version] = append(c.members[e.version], settled.member())
		if settled.subset != "" {
			m := mark{Name: c.object.Name, Subset: settled.subset}
			c.write(&c.marks, e.pod, marking(e.pod, &c.subsets[slices.Index(names, settled.subset)], m, whole))
		}
	}
	return nil
}

// addAwaited adds the places of Pods that are still being created to taken.
func (c *counter) addAwaited(taken map[[2]string]int, of *crowd) {
	for version, list := range c.object.Status.VersionedSubsetStatuses {
		there := map[string]bool{}
		for _, e := range of.marked[version] {
			there[e.pod.Name], there[e.mark.UID] = true, true
		}
		for i := range list {
			for key := range list[i].CreatingPods {
				if !there[key] {
					taken[[2]string{version, list[i].Name}]++
				}
			}
		}
	}
}

// close returns the conditions of the subsets, by name. A subset with Pods that were unschedulable for too long is
// closed, and these Pods are deleted, because another subset may be able to run new Pods. If no time is configured,
// subsets have no conditions.
func (c *counter) close() map[string]metav1.Condition {
	if c.policy.PendingFor <= 0 {
		return nil
	}
	conditions, pending := map[string]metav1.Condition{}, map[string][]*corev1.Pod{}
	last := c.subsets[len(c.subsets)-1].name
	for _, version := range slices.Sorted(maps.Keys(c.versions)) {
		for _, e := range c.versions[version] {
			if e.subset == "" || e.subset == last {
				continue
			}
			stuck, after := c.policy.IsStuck(e.pod, c.seen.now)
			if c.wait(after); stuck {
				pending[e.subset] = append(pending[e.subset], e.pod)
			}
		}
	}
	for i := range c.subsets {
		name := c.subsets[i].name
		was, stuck := standing(c.object.Status.SubsetStatuses, name), pending[name]
		next := subsets.Mark{Standing: subsets.Open, Since: was.Since}
		if name != last {
			var after time.Duration
			next, after = c.policy.Next(was, len(stuck), c.seen.now)
			c.wait(after)
		}
		if next.Standing == subsets.Closed {
			c.stuck = append(c.stuck, stuck[:min(len(stuck), kruise.PerPass-len(c.stuck))]...)
		} else if was.Standing == subsets.Closed {
			next.Since = c.seen.now
			c.reopened = append(c.reopened, name)
		}
		conditions[name] = c.condition(schedulable(c.object.Status.SubsetStatuses, name), next, stuck)
	}
	return conditions
}

// condition returns the condition Schedulable of a subset. If the subset is closed, the message contains the name of
// a Pod that could not be scheduled, and the scheduler's reason. While the subset stays closed, the message does not
// change.
func (c *counter) condition(was *metav1.Condition, next subsets.Mark, stuck []*corev1.Pod) metav1.Condition {
	out := metav1.Condition{
		Type: v1beta1.WorkloadSpreadSchedulable, Status: metav1.ConditionTrue, Reason: apps.SubsetSufficient,
		LastTransitionTime: metav1.NewTime(next.Since.Truncate(time.Second)),
	}
	if next.Since.IsZero() {
		out.LastTransitionTime = metav1.NewTime(c.seen.now.Truncate(time.Second))
	}
	if next.Standing != subsets.Closed {
		return out
	}
	if was != nil && was.Status == metav1.ConditionFalse {
		return *was
	}
	out.Status, out.Reason = metav1.ConditionFalse, apps.SubsetPodUnschedulable
	why := ""
	if scheduled := podstate.Condition(stuck[0], corev1.PodScheduled); scheduled != nil {
		why = ": " + reason.Shorten(scheduled.Message, 500)
	}
	out.Message = fmt.Sprintf("%d Pods were unschedulable for more than %s, the first is %s%s; new Pods go to later subsets until there is room",
		len(stuck), c.policy.PendingFor, stuck[0].Name, why)
	return out
}

func conditioned(list []v1beta1.WorkloadSpreadSubsetStatus, conditions map[string]metav1.Condition,
) []v1beta1.WorkloadSpreadSubsetStatus {
	for i := range list {
		if condition, ok := conditions[list[i].Name]; ok {
			list[i].Conditions = []metav1.Condition{condition}
		}
	}
	return list
}

// rank sets the deletion costs of a version's Pods; workloads delete the Pods with the lowest costs first. Of an
// older version, the Pods in the first subset are deleted first, because new Pods are created there. While the latest
// version is unknown, costs are not changed.
func (c *counter) rank(version string) {
	order := subsets.LastFirst
	switch {
	case !api.HasCosts(c.kind) || version != apps.SubsetVersionIgnored && c.seen.latest == "":
		return
	case version != apps.SubsetVersionIgnored && version != c.seen.latest:
		order = subsets.FirstFirst
	}
	pods, in := make([]*corev1.Pod, 0, len(c.versions[version])), make(map[*corev1.Pod]string, len(c.versions[version]))
	for _, e := range c.versions[version] {
		pods, in[e.pod] = append(pods, e.pod), e.subset
	}
	for _, ranked := range subsets.Rank(c.room, pods, func(pod *corev1.Pod) string { return in[pod] }, order) {
		cost := strconv.Itoa(ranked.Cost)
		if ranked.Pod.Annotations[apps.AnnotationPodDeletionCost] != cost {
			c.write(&c.costs, ranked.Pod, metadata{Annotations: map[string]*string{apps.AnnotationPodDeletionCost: &cost}})
		}
	}
}

// fitOf returns how well an existing Pod without a mark (the annotation with the subset) fits a subset, according to
// the Pod's Node. The Node may have become unhealthy since the Pod was created, so taints that Kubernetes itself adds
// are ignored.
func fitOf(pod *corev1.Pod, of *subset, node func(string) *corev1.Node) (fit subsets.Fit) {
	on := node(pod.Spec.NodeName)
	if !podstate.IsScheduled(pod) || on == nil {
		return fit
	}
	spec := corev1.PodSpec{
		NodeSelector: pod.Spec.NodeSelector, Affinity: requiring(pod.Spec.Affinity, of.required),
		Tolerations: slices.Concat(pod.Spec.Tolerations, of.tolerations, nodefit.HealthTolerations(),
			[]corev1.Toleration{{Key: corev1.TaintNodeUnschedulable, Operator: corev1.TolerationOpExists}}),
	}
	fit.Runs = runs(&spec, on) && toleratesAll(spec.Tolerations, on)
	for i := range of.preferred {
		wish := corev1.PodSpec{
			Affinity: requiring(nil, &of.preferred[i].Preference), Tolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
		}
		if runs(&wish, on) {
			fit.Preferred += int(of.preferred[i].Weight)
		}
	}
	fit.Same = fit.Runs && looksLike(pod, of)
	return fit
}

func runs(spec *corev1.PodSpec, node *corev1.Node) bool {
	requirements, _ := nodefit.New(spec) // invalid requirements fit no Node
	return requirements.Fits(node).Run
}

// toleratesAll reports whether the Pod tolerates all taints of effect PreferNoSchedule, which package nodefit ignores.
func toleratesAll(tolerations []corev1.Toleration, node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			exists := t.Operator == corev1.TolerationOpExists
			return (t.Effect == "" || t.Effect == taint.Effect) && (t.Key == taint.Key || t.Key == "" && exists) && (t.Value == taint.Value || exists)
		})
	})
}
