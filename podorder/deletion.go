package podorder

import (
	"math"
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"

	"github.com/workloadkit/workloadkit/podstate"
)

// Deletion sorts Pods for scale-in. The zero value spreads the remaining Pods over nodes.
type Deletion struct {
	// Available reports whether a Pod counts as available; nil stands for podstate.IsReady.
	Available func(*corev1.Pod) bool
	// Constraints are the Pod template's topologySpreadConstraints. If there are Constraints, Pods in crowded topology
	// domains are deleted first; otherwise Pods on nodes with several Pods.
	Constraints []corev1.TopologySpreadConstraint
	// NodeLabels returns a node's labels, and false if the node is unknown. Sort calls NodeLabels once per node.
	// NodeLabels may be nil without Constraints.
	NodeLabels func(node string) (map[string]string, bool)
	// StateAlone ignores deletion costs, crowded nodes and Constraints. Use StateAlone to compute deletion costs from
	// the order: the order must then not depend on these costs.
	StateAlone bool
}

// Sort orders Pods for deletion, the first Pod to delete in front: not assigned to a node; phase Pending, then Unknown,
// then Running; not available; not ready; lower annotation controller.kubernetes.io/pod-deletion-cost (0 if invalid or
// missing); more crowded; ready for less time; more container restarts; newer. The sort is stable, and compares only
// the given Pods with each other.
func (d Deletion) Sort(pods []*corev1.Pod) {
	if len(pods) < 2 {
		return
	}
	available := d.Available
	if available == nil {
		available = podstate.IsReady
	}
	facts := make([]facts, len(pods))
	for i, pod := range pods {
		facts[i] = factsOf(pod)
		if available(pod) {
			facts[i].stage |= stageAvailable
		}
		if !d.StateAlone {
			facts[i].cost = deletionCost(pod)
		}
	}
	compare := func(a, b int32) int { return facts[a].compare(&facts[b]) }

	// The order of all Pods without ranks is also the order within each node.
	unranked := sorted(len(pods), compare)
	if d.StateAlone {
		arrange(pods, unranked)
		return
	}
	for i, position := range fromEnd(unranked, func(i int32) (string, bool) {
		return pods[i].Spec.NodeName, podstate.IsScheduled(pods[i])
	}).positions {
		facts[i].rank = math.Max(float64(position-1), 0) // the last Pod of a node has rank 0
	}
	order := sorted(len(pods), compare)
	if len(d.Constraints) > 0 {
		for i, rank := range d.spreadRanks(pods, unranked, order) {
			facts[i].rank = rank
		}
		order = sorted(len(pods), compare)
	}
	arrange(pods, order)
}

// spreadRanks returns each Pod's rank by topology. The rank is a sum over the constraints: for each constraint, the
// Pod's position in its domain, counted from the end, times a weight that grows with the logarithm of the number of
// domains. Within a host, the order without ranks counts; within other domains, the order with the ranks by node.
func (d Deletion) spreadRanks(pods []*corev1.Pod, unranked, byNode []int32) []float64 {
	ranks := make([]float64, len(pods))
	if d.NodeLabels == nil {
		return ranks
	}
	nodes := map[string]map[string]string{}
	for _, pod := range pods {
		name := pod.Spec.NodeName
		if _, known := nodes[name]; !known && name != "" {
			nodes[name], _ = d.NodeLabels(name)
		}
	}
	for i := range d.Constraints {
		key := d.Constraints[i].TopologyKey
		order := byNode
		if key == corev1.LabelHostname {
			order = unranked
		}
		in := fromEnd(order, func(i int32) (string, bool) {
			domain, ok := nodes[pods[i].Spec.NodeName][key]
			return domain, ok
		})
		weight := math.Log(float64(in.domains) + 2)
		for i, position := range in.positions {
			ranks[i] += float64(position) * weight
		}
	}
	return ranks
}

// places holds the position of each Pod within its domain, counted from the end: the last Pod has 1, a Pod without a
// domain 0.
type places struct {
	positions []int
	domains   int
}

func fromEnd(order []int32, domainOf func(i int32) (string, bool)) places {
	seen := map[string]int{}
	p := places{positions: make([]int, len(order))}
	for _, o := range slices.Backward(order) {
		if domain, ok := domainOf(o); ok {
			seen[domain]++
			p.positions[o] = seen[domain]
		}
	}
	p.domains = len(seen)
	return p
}

// deletionCost parses the annotation as the API server validates the annotation: no plus sign, no leading zeros.
func deletionCost(pod *corev1.Pod) int32 {
	value, ok := pod.Annotations[corev1.PodDeletionCost]
	if !ok || value == "" || value[0] == '+' || (value[0] == '0' && value != "0") {
		return 0
	}
	cost, err := strconv.ParseInt(value, 10, 32)
	if err != nil {
		return 0
	}
	return int32(cost)
}
