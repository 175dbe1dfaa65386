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

// observed is what a pass knows of a target.
type observed struct {
	// pods are the Pods of the target.
	pods *crowd
	// node returns a Node, or nil.
	node func(name string) *corev1.Node
	// replicas is nil if the number of wanted Pods is unknown.
	replicas *int
	// versioned is for versionOf, and latest is the version of the target's new Pods, empty if unknown.
	versioned func(kind string) bool
	latest    string
	// absent reports whether the Pod of a taken place will not come, nil for unknown.
	absent func(key string, since time.Time) bool
	// unasked is why the API server could not be asked about absent Pods. The count goes on.
	unasked error
	now     time.Time
}

// written is a Pod with changes to write.
type written struct {
	pod    *corev1.Pod
	change metadata
}

// plan is what a pass does, in this order.
type plan struct {
	status v1beta1.WorkloadSpreadStatus
	room   []subsets.Place
	// marks are for Pods older than the WorkloadSpread, and costs are deletion costs.
	marks, costs []written
	// stuck are Pods to delete, because a later subset may have room.
	stuck []*corev1.Pod
	// lost are Pods that did not come or go in time, and reopened are subsets that take Pods again.
	lost     reason.List
	reopened []string
	// requeueAfter is when to look again, 0 for no need.
	requeueAfter time.Duration
}

// counter counts the Pods of a WorkloadSpread.
type counter struct {
	*settings
	plan

	object *v1beta1.WorkloadSpread
	seen   observed
	// versions are the active Pods by version, marked Pods first, then in the order of their names. members are the same
	// Pods.
	versions map[string][]*entry
	members  map[string][]subsets.Member
}

// count returns the plan of a pass.
func (s *settings) count(object *v1beta1.WorkloadSpread, seen observed) (plan, error) {
	c, err := s.tally(object, seen)
	if err != nil {
		return plan{}, err
	}
	return c.finish(), nil
}

// tally is the part of a count that depends on the places taken meanwhile. Webhooks wait for a tally.
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
	aggregate := subsets.Policy{}.Count(nil, before, all, seen.now)
	c.status.ObservedGeneration = object.Generation
	c.status.SubsetStatuses = conditioned(listOf(aggregate.Book, before, nil), conditions)
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
		book, _ := bookOf(list).Drop(places, c.seen.pods.hasEnded) // the Pods have come, and are not lost
		if seen.absent != nil {
			var lost reason.List
			book, lost = book.Drop(places, seen.absent)
			c.lost = append(c.lost, lost...)
		}
		tally := s.policy.Count(book, places, c.members[version], seen.now)
		c.lost = append(c.lost, tally.Lost...)
		c.wait(tally.RequeueAfter)
		if len(c.versions[version]) > 0 || !tally.Book.IsIdle() {
			c.status.VersionedSubsetStatuses = with(c.status.VersionedSubsetStatuses, version, conditioned(listOf(tally.Book, places, nil), conditions))
		}
	}
	return c, nil
}

// finish adds the changes of Pods.
func (c *counter) finish() plan {
	for _, version := range slices.Sorted(maps.Keys(c.versions)) {
		c.rank(version)
	}
	return c.plan
}

// booksOf returns the ledger of a WorkloadSpread never counted, or with a status removed by hand: marked Pods have
// their places, beside the places taken since.
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

// write adds a change, or leaves the change to the next pass.
func (c *counter) write(to *[]written, pod *corev1.Pod, change metadata) {
	if len(*to) < kruise.PerPass {
		*to = append(*to, written{pod, change})
		return
	}
	c.wait(time.Second)
}

// sort finds the subset of each Pod, and the marks of Pods without a mark. Marked Pods have their places before others
// ask for room.
func (c *counter) sort(places []subsets.Place, of *crowd) error {
	taken := map[[2]string]int{} // by version and subset
	for version, entries := range of.marked {
		c.versions[version], c.members[version] = slices.Clip(entries), slices.Clip(of.members[version])
		for _, e := range entries {
			taken[[2]string{version, e.subset}]++
		}
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

// close returns the conditions of the subsets, by name. A subset with Pods that were unschedulable for too long is
// closed, and the Pods are deleted: another subset may have room. Without a time no subset has a condition.
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

// condition says what a closed subset waits for. While a subset stays closed the words stay, too.
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

// rank sets the deletion costs of a version's Pods. Pods of an older version make way from the first subset on, where
// their successors go. While the latest version is unknown, costs stay.
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

// fitOf says how well an existing Pod without a mark goes with a subset, by the Pod's Node. The Node may have got
// trouble since: taints of Kubernetes itself do not count.
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
	requirements, _ := nodefit.New(spec) // an unusable part fits no Node
	return requirements.Fits(node).Run
}

// toleratesAll reports whether no taint makes the scheduler avoid the Node: package nodefit leaves such taints out.
func toleratesAll(tolerations []corev1.Toleration, node *corev1.Node) bool {
	return !slices.ContainsFunc(node.Spec.Taints, func(taint corev1.Taint) bool {
		return taint.Effect == corev1.TaintEffectPreferNoSchedule && !slices.ContainsFunc(tolerations, func(t corev1.Toleration) bool {
			exists := t.Operator == corev1.TolerationOpExists
			return (t.Effect == "" || t.Effect == taint.Effect) && (t.Key == taint.Key || t.Key == "" && exists) && (t.Value == taint.Value || exists)
		})
	})
}
