package containerrestart

import (
	"cmp"
	"strconv"
	"strings"
	"time"

	"github.com/workloadkit/workloadkit/completion"
	"github.com/workloadkit/workloadkit/reason"
)

// Request is the wish to restart containers of a Pod, with the record of the progress.
type Request struct {
	// Containers are restarted in the order of the list, each name once.
	Containers []Container
	// Ordered waits for the return of a container before the stop of the next container.
	Ordered bool
	// Force also stops a container that has restarted since the request began.
	Force bool
	// MinStarted is how long a new instance must run to count as restarted.
	MinStarted time.Duration
	// OnFailure is the meaning of a failed container for the request: completion.End or completion.GoOn.
	OnFailure completion.OnFailure
	// Unready is how long the Pod must have been unready before a stop; nil for no such wait.
	Unready *time.Duration
	// UnreadySince is the time when the Pod was made unready for the request; zero for not yet.
	UnreadySince time.Time
	// Started is the time of the request's creation, and Ended of the recorded end; zero for none.
	Started, Ended time.Time
	// Deadline is the time from Started to the request's failure; nil for none.
	Deadline *time.Duration
	// TTL is the time from Ended to the request's deletion; nil for never.
	TTL *time.Duration
	// Paths are the paths of the request's fields, for reasons.
	Paths Paths
}

// Paths name fields of a request. An empty path stands for "containers", "minStarted", "onFailure", "unready" or
// "deadline".
type Paths struct{ Containers, MinStarted, OnFailure, Unready, Deadline string }

func (p Paths) orDefaults() Paths {
	return Paths{
		Containers: cmp.Or(p.Containers, "containers"), MinStarted: cmp.Or(p.MinStarted, "minStarted"),
		OnFailure: cmp.Or(p.OnFailure, "onFailure"), Unready: cmp.Or(p.Unready, "unready"), Deadline: cmp.Or(p.Deadline, "deadline"),
	}
}

// Container is a container to restart, with its record.
type Container struct {
	// Name of the container in the Pod.
	Name string
	// Before is the ID of the instance in the Pod's status at the beginning of the request. Without Before the
	// container had no instance, and every instance counts as newer. All IDs may have the name of the runtime in front:
	// "containerd://ab12" equals "ab12".
	Before string
	// Phase is the recorded progress. An unknown value counts as Pending.
	Phase Phase
	// Stopped records a stop for the request: somebody was asked for the stop, or the container has ended by itself.
	Stopped bool
	// StoppedID is the ID of the instance to be stopped, if recorded. The ID matters with Force alone: a process that
	// does not record the ID may leave the instance running if the process dies before the stop.
	StoppedID string
	// Why says why the container has failed, if recorded.
	Why reason.Reason
}

// Phase is the progress of a container.
type Phase string

// The phases of a container.
const (
	// Pending containers wait for a stop.
	Pending Phase = "Pending"
	// Restarting containers are being stopped, or have stopped and are not back yet.
	Restarting Phase = "Restarting"
	// Restarted containers are back. The phase is final.
	Restarted Phase = "Restarted"
	// Failed containers could not be restarted. The phase is final.
	Failed Phase = "Failed"
)

// isFinal reports whether nothing more happens to the container.
func (p Phase) isFinal() bool { return p == Restarted || p == Failed }

// SplitID separates the runtime's name from an ID of a Pod's status: "containerd" and "ab12". The name is empty for an
// ID without a name in front.
func SplitID(id string) (runtime, bare string) {
	if name, rest, found := strings.Cut(id, "://"); found {
		return name, rest
	}
	return "", id
}

// sameID reports whether two IDs are of the same instance.
func sameID(a, b string) bool {
	_, a = SplitID(a)
	_, b = SplitID(b)
	return a == b
}

// problems lists the faults of a request.
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
