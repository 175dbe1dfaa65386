package containerrestart

import (
	"cmp"
	"time"
)

// State is the state of an instance in its container runtime.
type State uint8

// These are the states of an instance.
const (
	// Unknown is any state other than the states below, because a runtime that has just started may not know the
	// states of instances. An instance in state Unknown counts neither as running nor as ended.
	Unknown State = iota
	// Created instances have not started.
	Created
	// Running instances have started and have not ended.
	Running
	// Exited instances have ended.
	Exited
)

// Instance is a run of a container, as reported by the Node's container runtime.
type Instance struct {
	// ID is the instance's ID in the runtime.
	ID string
	// Name is the name of the container in the Pod.
	Name string
	// Attempt is the number of earlier instances, as counted by the kubelet. The instance with the highest Attempt is
	// the newest.
	Attempt int32
	State   State
	// Created, Started and Finished are times reported by the runtime; zero if not yet.
	Created, Started, Finished time.Time
	// ExitCode is the exit code of an Exited instance.
	ExitCode int32
	// Grace is the grace period of the Pod as recorded in the runtime; nil if unknown.
	Grace *time.Duration
}

// View describes a container from the Pod's status.
type View struct {
	// Name is the name of the container in the Pod.
	Name string
	// ID is the ID of the instance.
	ID string
	// Ready is the field ready of the status.
	Ready bool
	// Ended means that the kubelet will not start the container again: see podstate.IsRestarted and the Pod's phase.
	Ended bool
}

// Stop is a stop that is in progress or has failed. A stop that has succeeded is not listed, because its instance does
// not run any more.
type Stop struct {
	// ID is the ID of the instance.
	ID string
	// Err is the error of a failed stop; nil if the stop is in progress.
	Err error
}

// Observed is the present state of a Pod on its Node. Read the stops before the instances, because a stop may end
// between the two reads.
type Observed struct {
	// Instances are the instances of the Pod's containers, in any order. Instances of other containers are ignored.
	Instances []Instance
	// Views are the Pod's containers from its status, in any order.
	Views []View
	// Stops are the stops of the Pod's instances, in any order.
	Stops []Stop
}

// newest returns the last instance of a container: by the kubelet's count, or by creation time if the counts are equal.
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

// view returns the View of an instance, or the zero View if the Pod's status does not show this instance.
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
