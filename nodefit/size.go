package nodefit

import (
	"cmp"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/workloadkit/workloadkit/podstate"
	"github.com/workloadkit/workloadkit/reason"
)

// NodeTooSmall means that a Pod requests more of a resource than the Node offers to all its Pods together.
const NodeTooSmall reason.Code = "NodeTooSmall"

// Size is the sum of a Pod's resource requests, computed by SizeOf. The zero value fits every Node.
type Size struct{ requests []request }

type request struct {
	name corev1.ResourceName
	most resource.Quantity
}

// SizeOf returns the resource requests of a Pod with the spec, including overhead. If the spec has Pod-level requests,
// they replace the containers' requests.
func SizeOf(spec *corev1.PodSpec) Size {
	sum := podstate.Requests(spec.InitContainers, spec.Containers)
	if spec.Resources != nil {
		maps.Copy(sum, spec.Resources.Requests)
	}
	for name, more := range spec.Overhead {
		total := sum[name].DeepCopy()
		total.Add(more)
		sum[name] = total
	}
	var s Size
	for name, most := range sum {
		if !most.IsZero() {
			s.requests = append(s.requests, request{name, most})
		}
	}
	slices.SortFunc(s.requests, func(a, b request) int { return cmp.Compare(a.name, b.name) })
	return s
}

// Fits returns a reason for each resource of which the Node has too little even if no other Pod runs on the Node. The
// list is empty if the Pod would fit after other Pods have left the Node. Fits ignores the Pods on the Node: the
// scheduler checks the free resources.
func (s Size) Fits(node *corev1.Node) (problems reason.List) {
	for _, r := range s.requests {
		has := node.Status.Allocatable[r.name]
		if r.most.Cmp(has) <= 0 {
			continue
		}
		problems = append(problems, reason.Reason{
			Code: NodeTooSmall, Object: reason.Object{Kind: "Node", Name: node.Name, UID: node.UID}, Path: "status.allocatable[" + string(r.name) + "]",
			Old: has.String(), New: r.most.String(), Detail: "the Pod requests more than the Node has", Remedy: "request less, or use larger Nodes",
		})
	}
	return problems
}

// ChangedSize reports whether [Size.Fits] may give different results for two versions of a Node.
func ChangedSize(before, after *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}
