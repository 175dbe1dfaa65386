package containerrestart

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/reason"
)

// Request is a request to restart containers of a Pod, with its recorded progress.
type Request struct {
	// Containers are the containers to restart, in this order, each name once.
	Containers []Container
	// Ordered means that a container is stopped only after the previous container has restarted.
	Ordered bool
	// Force means that containers that have restarted by themselves since the request began are stopped too.
	Force bool
	// MinStarted is how long a new instance must run to count as restarted.
	MinStarted time.Duration
	// OnFailure says what happens to the request after a container has failed: completion.End or completion.GoOn.
	OnFailure completion.OnFailure
	// Unready is how long the Pod must have been unready before a container is stopped; nil means that the Pod need not
	// be unready.
	Unready *time.Duration
	// UnreadySince is the time when the Pod was made unready for the request; zero if not yet.
	UnreadySince time.Time
	// Started is the creation time of the request. Ended is the recorded time of the end; zero if not yet.
	Started, Ended time.Time
	// Deadline is the time from Started until the request fails; nil for none.
	Deadline *time.Duration
	// TTL is the time from Ended until the request is deleted; nil for never.
	TTL *time.Duration
	// Paths are the paths of the request's fields, used in reasons.
	Paths Paths
}

// Paths are paths of a request's fields. An empty path means "containers", "minStarted", "onFailure", "unready" or
// "deadline".
type Paths struct{ Containers, MinStarted, OnFailure, Unready, Deadline string }

func (p Paths) orDefaults() Paths {
	return Paths{
		Containers: cmp.Or(p.Containers, "containers"), MinStarted: cmp.Or(p.MinStarted, "minStarted"),
		OnFailure: cmp.Or(p.OnFailure, "onFailure"), Unready: cmp.Or(p.Unready, "unready"), Deadline: cmp.Or(p.Deadline, "deadline"),
	}
}

// Container is a container to restart, with its recorded progress.
type Container struct {
	// Name is the name of the container in the Pod.
	Name string
	// Before is the ID of the instance in the Pod's status when the request began. If Before is empty, the container
	// had no instance, and every instance counts as newer. IDs may begin with the name of the runtime:
	// "containerd://ab12" equals "ab12".
	Before string
	// Phase is the recorded progress. An unknown value means Pending.
	Phase Phase
	// Stopped records that the old instance needs no further stop for the request: the runtime was asked to stop the
	// instance, or the instance has ended by itself.
	Stopped bool
	// StoppedID is the ID of the instance to stop, if recorded. The ID matters only if Force is set: without a
	// recorded ID, the instance may never be stopped if the process dies before the stop.
	StoppedID string
	// Why is the reason why the container has failed, if recorded.
	Why reason.Reason
}

// Phase is the progress of a container's restart.
type Phase string

// These are the phases of a container.
const (
	// Pending means that the container has not been stopped yet.
	Pending Phase = "Pending"
	// Restarting means that the container is being stopped, or has been stopped and has not restarted yet.
	Restarting Phase = "Restarting"
	// Restarted means that the container has restarted. The phase never changes again.
	Restarted Phase = "Restarted"
	// Failed means that the container could not be restarted. The phase never changes again.
	Failed Phase = "Failed"
)

// isFinal reports whether the phase never changes again.
func (p Phase) isFinal() bool { return p == Restarted || p == Failed }

// SplitID separates the runtime's name from an ID of a Pod's status: "containerd" and "ab12". The name is empty for an
// ID that does not begin with a name.
func SplitID(id string) (runtime, bare string) {
	if name, rest, found := strings.Cut(id, "://"); found {
		return name, rest
	}
	return "", id
}

// sameID reports whether two IDs mean the same instance.
func sameID(a, b string) bool {
	_, a = SplitID(a)
	_, b = SplitID(b)
	return a == b
}

// problems returns the invalid values in a request.
func (r *Request) problems(paths Paths) (out reason.List) {
	add := func(path, found, detail, remedy string) {
		out = append(out, reason.Reason{Code: InvalidRequest, Path: path, New: found, Detail: detail, Remedy: remedy})
	}
	if len(r.Containers) == 0 {
		add(paths.Containers, "", "no container is named", "name a container")
	}
	seen := map[string]bool{}
	for i, c := range r.Containers {
		switch {
		case c.Name == "":
			add(paths.Containers+"["+strconv.Itoa(i)+"]", "", "the name is missing", "name each container")
		case seen[c.Name]:
			add(paths.Containers+"["+reason.Shorten(c.Name, 63)+"]", "", "the container is named twice", "name each container once")
		}
		seen[c.Name] = true
	}
	negative := func(path string, d *time.Duration) {
		if d != nil && *d < 0 {
			add(path, d.String(), "negative", "use 0 or more")
		}
	}
	negative(paths.MinStarted, &r.MinStarted)
	negative(paths.Unready, r.Unready)
	negative(paths.Deadline, r.Deadline)
	if r.OnFailure != completion.GoOn && r.OnFailure != completion.End {
		add(paths.OnFailure, strconv.Itoa(int(r.OnFailure)), "unknown", "use GoOn or End of package completion")
	}
	return out
}
