package containerrestart

import (
	"cmp"
	"time"
)

// State is the state of an instance at its runtime.
type State uint8

// The states of an instance.
const (
	// Unknown is any state not listed here. Such an instance counts as neither running nor ended: a runtime does not
	// know more for a moment after its own start.
	Unknown State = iota
	// Created instances have not started.
	Created
	// Running instances have started and not ended.
	Running
	// Exited instances have ended.
	Exited
)

// Instance is a run of a container, as the runtime of the Node tells.
type Instance struct {
	// ID is the runtime's ID.
	ID string
	// Name of the container in the Pod.
	Name string
	// Attempt is the kubelet's number of earlier instances. The highest is the newest instance.
	Attempt int32
	State   State
	// Created, Started and Finished are times of the runtime; zero for not yet.
	Created, Started, Finished time.Time
	// ExitCode is the code of an Exited instance.
	ExitCode int32
	// Grace is the grace period of the Pod as the runtime knows; nil for unknown.
	Grace *time.Duration
}

// View is a container in the Pod's status.
type View struct {
	// Name of the container in the Pod.
	Name string
	// ID of the instance.
	ID string
	// Ready is as in the Pod's status.
	Ready bool
	// Ended says that the kubelet does not start the container again: see podstate.IsRestarted, and a Pod's phase.
	Ended bool
}

// Stop is a stop under way, or a failed stop. A stop that has ended well is not listed: its instance does not run.
type Stop struct {
	// ID of the instance.
	ID string
	// Err says why the stop has failed; nil for a stop under way.
	Err error
}

// Observed is the present state of a Pod on its Node. Read the stops before the instances: a stop may end in between.
type Observed struct {
	// Instances of the Pod's containers, in any order. Instances of other containers do no harm.
	Instances []Instance
	// Views of the Pod's containers, in any order.
	Views []View
	// Stops of the Pod's instances, in any order.
	Stops []Stop
}

// newest returns the last instance of a container: by the kubelet's count, and by creation for equal counts.
func (o *Observed) newest(name string) (found Instance, ok bool) {
	for _, i := range o.Instances {
		if i.Name != name || i.ID == "" {
			continue
		}
		if !ok || cmp.Or(cmp.Compare(i.Attempt, found.Attempt), i.Created.Compare(found.Created)) > 0 {
			found, ok = i, true
		}
	}
	return found, ok
}

// view returns the container in the Pod's status, the zero View if the status lacks the instance.
func (o *Observed) view(i Instance) View {
	for _, v := range o.Views {
		if v.Name == i.Name && sameID(v.ID, i.ID) {
			return v
		}
	}
	return View{}
}

// stop returns the stop of an instance.
func (o *Observed) stop(id string) (Stop, bool) {
	for _, s := range o.Stops {
		if sameID(s.ID, id) {
			return s, true
		}
	}
	return Stop{}, false
}
