package inplaceupdate

import (
	"maps"
	"math"
	"slices"
	"time"

	"github.com/workloadkit/workloadkit/podpatch"
	"github.com/workloadkit/workloadkit/reason"
)

// Target says how to update a Pod and to which revision.
type Target struct {
	// Revision is written to the state annotation. Required.
	Revision string
	// Labels are set on the Pod in the same write, above all the caller's label with the Pod's revision. Keys.Reserved
	// must contain each label. Nil is refused; a caller with the revision elsewhere gives an empty map.
	Labels map[string]string
	// GracePeriod is the Pod's time out of service before its spec changes, if the update takes the Pod out of service.
	// The period is rounded up to whole seconds and counts from the end of the Pod's readiness. The wire format keeps the
	// start in whole seconds, so the period may last up to one second longer. Zero means no grace period. Negative periods
	// are refused.
	GracePeriod time.Duration
}

// maxGracePeriod is the limit of the wire format.
const maxGracePeriod = math.MaxInt32 * time.Second

// graceSeconds returns the grace period in whole seconds, rounded up.
func (t *Target) graceSeconds() int32 {
	return int32((t.GracePeriod + time.Second - 1) / time.Second)
}

// relabel adds the labels to a change. The maps of the change may be shared.
func (t *Target) relabel(change *podpatch.Change) {
	if len(t.Labels) == 0 {
		return
	}
	labels := make(map[string]*string, len(change.Labels)+len(t.Labels))
	maps.Copy(labels, change.Labels)
	for key, value := range t.Labels {
		labels[key] = &value
	}
	change.Labels = labels
}

// problems lists the faults of a target.
func (u *Updater) problems(t *Target) reason.List {
	var list reason.List
	add := func(path, value, detail, remedy string) {
		list = append(list, reason.Reason{Code: InvalidArgument, Path: "target." + path, New: value, Detail: detail, Remedy: remedy})
	}
	if t.Revision == "" {
		add("revision", "", "must not be empty", "")
	}
	if t.Labels == nil {
		add("labels", "", "must not be nil", "set the label that names the Pod's revision")
	}
	for _, key := range slices.Sorted(maps.Keys(t.Labels)) {
		if !u.config.Keys.reservesLabel(key) {
			add("labels["+key+"]", t.Labels[key], "templates could change it as well", "name it in Keys.Reserved")
		}
	}
	if t.GracePeriod < 0 || t.GracePeriod > maxGracePeriod {
		add("gracePeriod", t.GracePeriod.String(), "must not be negative or above "+maxGracePeriod.String(), "")
	}
	return list
}
