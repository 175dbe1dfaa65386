package advancedcronjob

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/workloadkit/workloadkit/examples/apis/apps/v1beta1"
)

func said(schedule, since string) *v1beta1.ObservedSchedule {
	out := &v1beta1.ObservedSchedule{Schedule: schedule}
	if since != "" {
		out.Since = &metav1.Time{Time: moment(since)}
	}
	return out
}

func TestCounted(t *testing.T) {
	for name, tt := range map[string]struct {
		stored, known *v1beta1.ObservedSchedule
		want          string // the expected Since
		before        string
	}{
		"nobody has looked yet":                           {},
		"written down":                                    {stored: said("0 * * * *", "")},
		"written down, with a change":                     {stored: said("0 * * * *", "02:00:00"), want: "02:00:00"},
		"known, and not written down":                     {known: said("0 * * * *", "02:00:00"), want: "02:00:00"},
		"a change that is news":                           {stored: said("0 9 * * *", "02:00:00"), want: "05:00:30", before: "0 9 * * *"},
		"a change that is news to the process alone":      {stored: said("0 * * * *", "02:00:00"), known: said("0 9 * * *", ""), want: "02:00:00"},
		"a change that the process noted before":          {stored: said("0 9 * * *", ""), known: said("0 * * * *", "04:59:59"), want: "04:59:59"},
		"a change while nothing was written down":         {known: said("0 9 * * *", ""), want: "05:00:30", before: "0 9 * * *"},
		"the clock was put back":                          {stored: said("0 * * * *", "08:00:00"), want: "05:00:30", before: "0 * * * *"},
		"the clock of another process is a little behind": {stored: said("0 * * * *", "05:01:00"), want: "05:01:00"},
	} {
		owner := hourly()
		owner.Status.ObservedSchedule = tt.stored
		counted, before := counted(owner, known{Schedule: tt.known}, moment("05:00:30"))
		if diff := cmp.Diff(*said("0 * * * *", tt.want), counted); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if (before == nil) != (tt.before == "") || before != nil && before.Schedule != tt.before {
			t.Errorf("%s: it was %v before, want %q", name, before, tt.before)
		}
	}
}

func TestChangeIn(t *testing.T) {
	entry := func(fields, at string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Time: &metav1.Time{Time: moment(at)}, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	status := entry(`{"f:spec":{"f:schedule":{}}}`, "09:00:00")
	status.Subresource = "status"
	record := []metav1.ManagedFieldsEntry{
		entry(`{"f:metadata":{"f:labels":{}}}`, "08:00:00"), entry(`{"f:spec":{"f:schedule":{}}}`, "03:00:00"), entry(`{"f:spec":{"f:schedule":{},"f:paused":{}}}`, "02:00:00"),
		entry(`{`, "07:00:00"),
		{FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:schedule":{}}}`)},
		{Time: &metav1.Time{Time: moment("07:00:00")}},
		status,
	}
	plain := v1beta1.ObservedSchedule{Schedule: "0 * * * *"}
	for name, tt := range map[string]struct {
		record        []metav1.ManagedFieldsEntry
		before, after v1beta1.ObservedSchedule
		want          time.Time
	}{
		"the schedule":                {record, v1beta1.ObservedSchedule{Schedule: "x"}, plain, moment("03:00:00")},
		"paused":                      {record, plain, v1beta1.ObservedSchedule{Schedule: plain.Schedule, Paused: true}, moment("02:00:00")},
		"both":                        {record, plain, v1beta1.ObservedSchedule{Schedule: "x", Paused: true}, moment("03:00:00")},
		"a field that was taken out":  {record, v1beta1.ObservedSchedule{Schedule: "x", TimeZone: "UTC"}, plain, time.Time{}},
		"nothing, and no other clock": {record, plain, plain, time.Time{}},
		"no record":                   {nil, v1beta1.ObservedSchedule{Schedule: "x"}, plain, time.Time{}},
	} {
		if got := changeIn(tt.record, &tt.before, &tt.after); !got.Equal(tt.want) {
			t.Errorf("%s: changed at %v, want %v", name, got, tt.want)
		}
	}
	var known known
	for _, tt := range []struct{ made, want time.Time }{{time.Time{}, moment("05:00:00")}, {moment("04:00:00"), moment("04:00:00")}, {moment("06:00:00"), moment("05:00:00")}} {
		if known.NoteChange(*said("x", "05:00:00"), tt.made); !known.Schedule.Since.Time.Equal(tt.want) {
			t.Errorf("made at %v: counts from %v, want %v", tt.made, known.Schedule.Since, tt.want)
		}
	}
}
