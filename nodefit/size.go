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

// NodeTooSmall means that a Pod requests more of a resource than the Node has for all its Pods together.
const NodeTooSmall reason.Code = "NodeTooSmall"

// Size is the requests of Pods of a spec, computed by SizeOf. The zero value fits every Node.
type Size struct{ requests []request }

type request struct {
	name corev1.ResourceName
	most resource.Quantity
}

// SizeOf returns the requests of a Pod of the spec, including overhead. Requests of the Pod as a whole count in place
// of its containers' requests.
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

// Fits lists the resources of which the Node has too little even when empty. The list is empty if a Pod has room there
// once other Pods make way. Fits ignores the Pods on the Node: room at the moment is the scheduler's affair.
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

// ChangedSize reports whether [Size.Fits] may answer differently for two states of a Node.
func ChangedSize(before, after *corev1.Node) bool {
	return !equality.Semantic.DeepEqual(before.Status.Allocatable, after.Status.Allocatable)
}
