package subsets_test

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
	"github.com/workloadkit/workloadkit/rollout/partition"
	"github.com/workloadkit/workloadkit/subsets"
)

// Site is an example of a kind that runs a Deployment in each of several clusters.
type Site struct {
	Replicas int
	Clusters []subsets.Subset
}

// Cluster is the observed state of the Deployment in a cluster.
type Cluster struct {
	Replicas, Scheduled int
	Pending             []*corev1.Pod
	// Room is how many Pods of the Site the cluster's quota allows, nil if unknown.
	Room *int
	// Mark is stored in the status of the Site.
	Mark subsets.Mark
}

// spread returns the replicas of each cluster's Deployment, and the marks to store. The controller writes both, and
// reports the division's Limits in a condition.
func spread(site *Site, clusters []Cluster, now time.Time) (subsets.Division, []subsets.Mark, error) {
	rules, err := subsets.New(subsets.Config{
		Fill:     subsets.InOrder,
		Rounding: partition.Up,
		Stay:     true, // running Pods are not moved back
		Paths:    subsets.Paths{Total: "spec.replicas", Subsets: "spec.clusters", Min: "min", Max: "max"},
	}, site.Clusters)
	if err != nil {
		return subsets.Division{}, nil, err
	}
	policy := subsets.Policy{PendingFor: time.Minute, ClosedFor: 10 * time.Minute}
	states, marks := make([]subsets.State, len(clusters)), make([]subsets.Mark, len(clusters))
	for i, c := range clusters {
		stuck := 0
		for _, pod := range c.Pending {
			if is, _ := policy.IsStuck(pod, now); is { // the second result says when to reconcile again
				stuck++
			}
		}
		marks[i], _ = policy.Next(c.Mark, stuck, now) // the second result says when to reconcile again
		states[i] = subsets.State{
			Replicas: c.Replicas, Settled: c.Scheduled, Capacity: c.Room, Standing: marks[i].Standing,
		}
	}
	division, err := rules.Divide(site.Replicas, states)
	return division, marks, err
}

// Example_clusters divides twelve replicas over three clusters. Two Pods of the cluster west cannot be scheduled, and
// move to the cluster far, where the quota allows five Pods.
func Example_clusters() {
	now := time.Date(2026, 7, 1, 12, 0, 0, 0, time.UTC)
	site := &Site{Replicas: 12, Clusters: []subsets.Subset{
		{Name: "east", Max: ptr.To(intstr.FromInt32(4))},
		{Name: "west", Max: ptr.To(intstr.FromString("40%"))},
		{Name: "far", Min: ptr.To(intstr.FromInt32(1))},
	}}
	division, _, err := spread(site, make([]Cluster, 3), now)
	if err != nil {
		fmt.Println(err) // and change no cluster
		return
	}
	fmt.Println(division.Replicas)

	pending := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: "site-x7k2p", CreationTimestamp: metav1.NewTime(now)},
		Status: corev1.PodStatus{Phase: corev1.PodPending, Conditions: []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable},
		}},
	}
	clusters := []Cluster{
		{Replicas: 4, Scheduled: 4},
		{Replicas: 5, Scheduled: 3, Pending: []*corev1.Pod{pending, pending}},
		{Replicas: 3, Scheduled: 3, Room: ptr.To(4)},
	}
	division, marks, err := spread(site, clusters, now.Add(2*time.Minute))
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(division.Replicas, "without a place:", division.Left, "west is", marks[1].Standing)
	for _, limit := range division.Limits {
		fmt.Println(limit)
	}
	// Output:
	// [4 5 3]
	// [4 3 4] without a place: 1 west is Closed
	// MaxReached: spec.clusters[east].max: 4; raise the maximum, or add a subset without
	// SubsetClosed: spec.clusters[west]: Closed: 3 of 5 Pods have settled; make room in the subset
	// CapacityReached: spec.clusters[far]: 4: no further Pod fits; make room in the subset
}

// Crawler is an example of a kind that creates its own Pods, on cheap spot Nodes, which the cloud may take away, and
// on other Nodes.
type Crawler struct {
	Replicas int
	// Spot and OnDemand are the weights of the two node pools.
	Spot, OnDemand int32
	// LeastOnDemand is the minimum number of Pods on the other Nodes.
	LeastOnDemand int32
}

const poolLabel = "example.com/pool"

// plan returns for each Pod to create its node pool, and the Pods to delete. closed are the pools without free Nodes.
func plan(
	crawler *Crawler, pods []*corev1.Pod, closed map[string]bool,
) (create []string, remove []*corev1.Pod, limits reason.List, err error) {
	config := subsets.Config{
		Fill: subsets.ByWeight, Paths: subsets.Paths{Total: "spec.replicas", Subsets: "spec.pools"},
	}
	rules, err := subsets.New(config, []subsets.Subset{
		{Name: "spot", Weight: crawler.Spot},
		{Name: "on-demand", Weight: crawler.OnDemand, Min: ptr.To(intstr.FromInt32(crawler.LeastOnDemand))},
	})
	if err != nil {
		return nil, nil, nil, err
	}
	pools := []string{"spot", "on-demand"}
	matcher, err := subsets.NewMatcher(pools, func(pod *corev1.Pod) string { return pod.Labels[poolLabel] }, nil)
	if err != nil {
		return nil, nil, nil, err
	}
	poolOf := func(pod *corev1.Pod) string { pool, _ := matcher.Of(pod); return pool }
	have := map[string]int{}
	for _, pod := range pods {
		if podstate.IsActive(pod) { // other Pods terminate, or must be replaced
			have[poolOf(pod)]++
		}
	}
	states := make([]subsets.State, len(pools))
	for i, pool := range pools {
		states[i] = subsets.State{Replicas: have[pool], Settled: have[pool]} // see spread for pending Pods
		if closed[pool] {
			states[i].Standing = subsets.Closed
		}
	}
	division, err := rules.Divide(crawler.Replicas, states)
	if err != nil {
		return nil, nil, nil, err
	}
	places := division.Places()
	for _, ranked := range subsets.Rank(places, pods, poolOf, subsets.LastFirst) {
		if ranked.Cost < 0 { // a surplus Pod of its pool, or a Pod without a pool
			remove = append(remove, ranked.Pod)
		}
	}
	for {
		choice := subsets.Pick(places, func(pool string) int { return have[pool] })
		if choice.Subset == "" {
			return create, remove, division.Limits, nil
		}
		have[choice.Subset]++
		create = append(create, choice.Subset)
	}
}

// Example_ratio runs seven of ten Pods on spot Nodes. When the cloud has no more spot Nodes, new Pods are created on
// on-demand Nodes. When there are spot Nodes again, Pods on spot Nodes replace the surplus of on-demand Nodes.
func Example_ratio() {
	crawler := &Crawler{Replicas: 6, Spot: 7, OnDemand: 3, LeastOnDemand: 2}
	var pods []*corev1.Pod
	pass := func(closed map[string]bool) {
		create, remove, limits, err := plan(crawler, pods, closed)
		if err != nil {
			fmt.Println(err) // and change no Pod
			return
		}
		fmt.Println("create", create, "delete", len(remove))
		for _, limit := range limits {
			fmt.Println(limit)
		}
		var stay []*corev1.Pod
		for _, pod := range pods {
			gone := false
			for _, removed := range remove {
				gone = gone || removed == pod
			}
			if !gone {
				stay = append(stay, pod)
			}
		}
		pods = stay
		for _, pool := range create {
			pods = append(pods, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{poolLabel: pool}}})
		}
	}
	pass(nil)
	crawler.Replicas = 9
	pass(map[string]bool{"spot": true})
	pass(map[string]bool{"spot": true})
	pass(nil)
	// Output:
	// create [spot spot spot spot on-demand on-demand] delete 0
	// create [on-demand on-demand on-demand] delete 0
	// SubsetClosed: spec.pools[spot]: Closed: 4 of 4 Pods have settled; make room in the subset
	// create [] delete 0
	// SubsetClosed: spec.pools[spot]: Closed: 4 of 4 Pods have settled; make room in the subset
	// create [spot spot] delete 2
}

// Example_substitutes has a Deployment in each of two clusters. The cluster near is new and has no free Nodes yet, so
// its Pods are pending. The cluster far keeps substitutes until the Pods of near have settled.
func Example_substitutes() {
	rules, err := subsets.New(subsets.Config{Fill: subsets.InOrder, Reserve: true}, []subsets.Subset{
		{Name: "near", Max: ptr.To(intstr.FromInt32(4))},
		{Name: "far"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	near, far := subsets.OnTrial, subsets.State{Replicas: 4, Settled: 4, Standing: subsets.Open}
	replicas := 0
	pass := func(settled, reserved int) {
		near = subsets.Proving(near, reserved) // reserved is the number of Pods for which Policy.IsReserved returns true
		division, err := rules.Divide(4, []subsets.State{{Replicas: replicas, Settled: settled, Standing: near}, far})
		if err != nil {
			fmt.Println(err) // and change no cluster
			return
		}
		if near == subsets.OnTrial && division.Replicas[0] > replicas {
			near = subsets.Closed // the subset stays Closed until its new Pods have settled
		} else if near == subsets.OnTrial {
			near = subsets.Open
		}
		replicas = division.Replicas[0]
		far.Replicas, far.Settled = division.Replicas[1], division.Replicas[1]
		fmt.Println("near", replicas, "far", far.Replicas, "of near have substitutes:", division.Reserved[0])
	}
	pass(0, 0)
	pass(0, 4) // no Node has free resources
	pass(4, 0) // the Pods have been ready for a while
	// Output:
	// near 4 far 4 of near have substitutes: 4
	// near 4 far 4 of near have substitutes: 4
	// near 4 far 0 of near have substitutes: 0
}
