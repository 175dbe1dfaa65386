package advancedcronjob

import (
	"encoding/json"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

// counted returns the schedule fields of a spec, with the time at which these fields were last changed. If the fields
// in the spec differ from the fields recorded in the status or in the process's memory, the time of the change is
// now, and before is the recorded schedule; otherwise before is nil.
func counted(owner *v1beta1.AdvancedCronJob, known known, now time.Time) (counted v1beta1.ObservedSchedule, before *v1beta1.ObservedSchedule) {
	said := timesOf(&owner.Spec)
	for _, noted := range []*v1beta1.ObservedSchedule{owner.Status.ObservedSchedule, known.Schedule} {
		if noted == nil {
			continue
		}
		if len(differences(noted, &said)) == 0 && !changed(noted).After(now.Add(skew)) {
			return *noted.DeepCopy(), nil
		}
		before = noted
	}
	if before != nil {
		said.Since = &metav1.Time{Time: now.Truncate(time.Second)}
	}
	return said, before
}

// NoteSchedule records the schedule fields of a spec in the memory of the process.
func (k *known) NoteSchedule(counted v1beta1.ObservedSchedule) { k.Schedule = &counted }

// NoteChange records in the memory of the process that the schedule fields have changed. made is the time of the
// change, or zero if unknown.
func (k *known) NoteChange(counted v1beta1.ObservedSchedule, made time.Time) {
	if !made.IsZero() && made.Before(changed(&counted)) {
		counted.Since = &metav1.Time{Time: made}
	}
	k.NoteSchedule(counted)
}

// timesOf returns the schedule fields of a spec.
func timesOf(spec *v1beta1.AdvancedCronJobSpec) v1beta1.ObservedSchedule {
	return v1beta1.ObservedSchedule{Schedule: spec.Schedule, TimeZone: ptr.Deref(spec.TimeZone, ""), Paused: ptr.Deref(spec.Paused, false)}
}

// changed returns when a schedule was last changed; zero means never.
func changed(counted *v1beta1.ObservedSchedule) time.Time {
	if counted.Since == nil {
		return time.Time{}
	}
	return counted.Since.Time
}

// differences returns the names of the spec fields that differ between two schedules.
func differences(a, b *v1beta1.ObservedSchedule) (fields []string) {
	if a.Schedule != b.Schedule {
		fields = append(fields, "schedule")
	}
	if a.TimeZone != b.TimeZone {
		fields = append(fields, "timeZone")
	}
	if a.Paused != b.Paused {
		fields = append(fields, "paused")
	}
	return fields
}

// changeIn returns when the schedule fields were changed, according to the object's managedFields. If the same writer
// has written further fields since, changeIn returns the time of that later write. If managedFields do not show the
// change, changeIn returns zero: the removal of a field leaves no trace.
func changeIn(record []metav1.ManagedFieldsEntry, before, after *v1beta1.ObservedSchedule) (made time.Time) {
	for _, field := range differences(before, after) {
		wrote := time.Time{}
		for i := range record {
			if entry := &record[i]; entry.Subresource == "" && entry.Time != nil && owns(entry, field) {
				wrote = newer(wrote, entry.Time.Time)
			}
		}
		if wrote.IsZero() {
			return time.Time{}
		}
		made = newer(made, wrote)
	}
	return made
}

// owns reports whether an entry of managedFields contains the field of the spec.
func owns(entry *metav1.ManagedFieldsEntry, field string) bool {
	var fields struct {
		Spec map[string]json.RawMessage `json:"f:spec"`
	}
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil {
		return false
	}
	_, ok := fields.Spec["f:"+field]
	return ok
}
