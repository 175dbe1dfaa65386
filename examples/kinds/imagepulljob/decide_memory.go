package imagepulljob

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workloadkit/workloadkit/node/imagepull"
	"github.com/workloadkit/workloadkit/node/imagepull/kubeletpull"
	"github.com/workloadkit/workloadkit/podstate"
)

const (
	// patience is how long a Pod that the scheduler cannot place counts as a pull in progress. The Pod is then deleted,
	// so that other Nodes can begin, and the number of Pods that wait for the scheduler stays below the parallelism.
	patience = time.Minute
	// fullFor is how long no Pod is created for a Node on which the scheduler had no room for a Pod.
	fullFor = 5 * time.Minute
)

// memory contains what the process remembers about Nodes whose kubelets pull. After a restart of the manager, the memory
// is empty: missing Pods are created again, and the image is already on their Nodes. Do not modify the maps.
type memory struct {
	image imagepull.Reference
	// last contains the last report about each Node, for Nodes whose Pods were deleted.
	last map[instance]known
	// full contains the Nodes on which the scheduler had no room for a Pod, until the next Pod of the Node exists.
	full map[instance]refusal
	// waits is since when the process has seen that the scheduler finds no room for the Pod of a Node.
	waits map[instance]time.Time
	// isShort is true if a quota has refused the creation of the last Pod.
	isShort bool
}

// instance is a Node. A Node that was deleted and created again is another instance.
type instance struct {
	name string
	uid  types.UID
}

func instanceOf(node *corev1.Node) instance { return instance{node.Name, node.UID} }

// known is a report, with the time of the job's claim.
type known struct {
	report imagepull.Report
	since  time.Time
}

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
	return memory{
		image: o.Settings.image, last: map[instance]known{}, full: map[instance]refusal{}, waits: map[instance]time.Time{}, isShort: o.Memory.isShort,
	}
}

// lookAtNoPod returns the progress on a Node without a Pod, from memory: a pulled image counts, and failed attempts
// count, even if the Pod was evicted, or was deleted because of a quota. A job that keeps images pulls again, but not on
// a cordoned Node, because the Node is probably being drained.
func (o *observation) lookAtNoPod(t *target, d *decision) imagepull.Node {
	node, key := imagepull.Node{Name: t.Name, NotReady: t.NotReady, Standing: imagepull.Standing{State: imagepull.Unclaimed}}, instanceOf(t.Node)
	last, isKnown := o.Memory.last[key]
	if !isKnown {
		return node
	}
	isPulled := last.report.Phase == imagepull.Succeeded
	if isPulled && o.Settings.policy.Keep && !t.Node.Spec.Unschedulable {
		return node
	}
	d.Memory.last[key] = last
	refused, isFull := o.Memory.full[key]
	switch {
	case isPulled && o.Settings.policy.Keep:
		node.NotReady = "the Node is cordoned, and the Pod that held the image is gone"
		return node
	case isPulled:
	case isFull:
		d.Memory.full[key] = refused
		if wait := refused.at.Add(fullFor).Sub(o.Now); wait > 0 && node.NotReady == "" {
			node.NotReady = refused.why
			d.wake(wait)
		}
		return node
	case node.NotReady == "":
		next := &decision{Memory: d.Memory}
		after := o.proceed(kubeletpull.Observed{Node: t.Node}, last, next)
		if len(next.Create) > 0 { // the Node begins again when the parallelism allows
			d.Memory.last[key] = last
			return node
		}
		last = after
		d.wake(next.After)
	}
	node.Standing = o.standing(last)
	return node
}

// proceed plans the next step after a report, and remembers the new report.
func (o *observation) proceed(seen kubeletpull.Observed, last known, d *decision) known {
	before := len(d.Create)
	last.report = o.step(seen, o.wants(last.report.Round, last.since), []imagepull.Report{last.report}, d)[0]
	d.Memory.last[instanceOf(seen.Node)] = last
	if o.Memory.isShort && len(d.Create) > before && last.report.Phase != imagepull.Succeeded {
		d.Delete = append(d.Delete, seen.Pods...) // the Pod of the failed attempt makes room for the next Pod
	}
	return last
}

// standing returns the state of the job's claim after a report.
func (o *observation) standing(last known) imagepull.Standing {
	return imagepull.Judge(o.wants(last.report.Round, last.since), []imagepull.Report{last.report}, o.Settings.image, owner(o.Job), o.Now)
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

// makeRoom deletes Pods whose image was pulled, one for each Pod to create, if a quota has refused the last Pod and Pods
// may be created now. Pods that are being deleted already count. For a job that keeps images, no Pod is deleted.
func (o *observation) makeRoom(targets []target, nodes []imagepull.Node, d *decision) {
	if !o.Memory.isShort || o.IsResting || o.Settings.policy.Keep {
		return
	}
	room := len(d.Create)
	for _, pods := range o.Pods {
		for _, pod := range pods {
			if pod.DeletionTimestamp != nil {
				room--
			}
		}
	}
	for i := range targets {
		pods := o.Pods[targets[i].Name]
		isHeld := slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return pod.DeletionTimestamp == nil && podstate.IsActive(pod) })
		if room > 0 && targets[i].Node != nil && nodes[i].Standing.State == imagepull.Done && isHeld {
			d.Delete = append(d.Delete, pods...)
			room--
		}
	}
}
