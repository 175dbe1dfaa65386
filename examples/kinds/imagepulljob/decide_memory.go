package imagepulljob

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/node/imagepull"
)

const (
	// patience is how long a Pod that the scheduler cannot place counts as a pull in progress. The Pod is then deleted,
	// so that other Nodes can begin, and the number of Pods that wait for the scheduler stays below the parallelism.
	patience = time.Minute
	// fullFor is how long no Pod is created for a Node on which the scheduler had no room for a Pod.
	fullFor = 5 * time.Minute
)

// memory contains what the process remembers about Nodes whose Pods were deleted. After a restart of the manager, the
// memory is empty: the Pods are created again, and the image is already on their Nodes. Do not modify the maps.
type memory struct {
	image imagepull.Reference
	// pulled contains the Nodes on which the image was pulled.
	pulled map[instance]bool
	// full contains the Nodes on which the scheduler had no room for a Pod.
	full map[instance]refusal
	// isShort is true if a quota has refused the creation of the last Pod.
	isShort bool
}

// instance is a Node. A Node that was deleted and created again is another instance.
type instance struct {
	name string
	uid  types.UID
}

func instanceOf(node *corev1.Node) instance { return instance{node.Name, node.UID} }

// refusal is when and why the scheduler has found no room for a Pod on a Node.
type refusal struct {
	at  time.Time
	why string
}

// recall returns the memory for the next decision, without facts about Nodes: the caller adds the facts that are
// still true. If the job's image has changed, recall also removes the facts from o.Memory.
func (o *observation) recall() memory {
	if o.Memory.image != o.Settings.image {
		o.Memory = memory{isShort: o.Memory.isShort}
	}
	return memory{image: o.Settings.image, pulled: map[instance]bool{}, full: map[instance]refusal{}, isShort: o.Memory.isShort}
}

// lookAtNoPod returns the progress on a Node without a Pod, from memory: a pulled image counts, even if the Pod was
// evicted, or was deleted because of a quota. A job that keeps images pulls again, but not on a cordoned Node,
// because the Node is probably being drained.
func (o *observation) lookAtNoPod(t *target, d *decision) imagepull.Node {
	node, key := imagepull.Node{Name: t.Name, NotReady: t.NotReady, Standing: imagepull.Standing{State: imagepull.Unclaimed}}, instanceOf(t.Node)
	if o.Memory.pulled[key] && (!o.Settings.policy.Keep || t.Node.Spec.Unschedulable) {
		d.Memory.pulled[key] = true
		if node.Standing.State = imagepull.Done; o.Settings.policy.Keep {
			node.Standing.State, node.NotReady = imagepull.Unclaimed, "the Node is cordoned, and the Pod that held the image is gone"
		}
		return node
	}
	if last, isFull := o.Memory.full[key]; isFull && node.NotReady == "" {
		if wait := last.at.Add(fullFor).Sub(o.Now); wait > 0 {
			d.Memory.full[key], node.NotReady = last, last.why
			d.wake(wait)
		}
	}
	return node
}

// inTurn returns the targets in the order in which pulls begin: Nodes without room for a Pod come last.
func (o *observation) inTurn() []target {
	if len(o.Memory.full) == 0 {
		return o.Targets
	}
	var first, last []target
	for _, t := range o.Targets {
		if t.Node != nil && o.Memory.full[instanceOf(t.Node)].why != "" {
			last = append(last, t)
		} else {
			first = append(first, t)
		}
	}
	return append(first, last...)
}

// makeRoom deletes Pods whose image was pulled, one for each Pod to create, if a quota has refused the last Pod. For
// a job that keeps images, no Pod is deleted.
func (o *observation) makeRoom(targets []target, nodes []imagepull.Node, d *decision) {
	if !o.Memory.isShort || o.Settings.policy.Keep {
		return
	}
	room := len(d.Create)
	for i := range targets {
		if pods := o.Pods[targets[i].Name]; room > 0 && targets[i].Node != nil && nodes[i].Standing.State == imagepull.Done && len(pods) > 0 {
			d.Delete = append(d.Delete, pods...)
			room--
		}
	}
}
