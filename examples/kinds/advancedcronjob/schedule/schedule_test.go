package schedule_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"

	"github.com/google/go-cmp/cmp"
	"github.com/robfig/cron/v3"

	"github.com/workloadkit/workloadkit/examples/kinds/advancedcronjob/schedule"
	"github.com/workloadkit/workloadkit/reason"
)

func Example() {
	zone := "Europe/Berlin"
	s, err := schedule.Parse("30 2 * * *", &zone, time.UTC)
	if err != nil {
		fmt.Println(err)
		return
	}
	now := time.Date(2026, 3, 30, 12, 0, 0, 0, time.UTC)
	due := s.Due(schedule.Window{Last: time.Date(2026, 3, 27, 1, 30, 0, 0, time.UTC), Now: now})
	fmt.Println("start", due.Slot.Format(time.RFC3339), "missed", due.Missed, "next", due.Next.Format(time.RFC3339))
	// On March 29, the clocks in the time zone are set forward at two o'clock.
	// Output: start 2026-03-30T00:30:00Z missed 1 next 2026-03-31T00:30:00Z
}

func at(t testing.TB, text string) time.Time {
	t.Helper()
	if text == "" {
		return time.Time{}
	}
	parsed, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return parsed.UTC()
}

func TestParse(t *testing.T) {
	for name, tt := range map[string]struct {
		schedule string
		zone     *string
		want     reason.Code
		path     string
	}{
		"2.1: five fields":                         {schedule: "*/5 8-18 * * mon-fri"},
		"2.1: a word":                              {schedule: "@hourly"},
		"2.1: @every":                              {schedule: "@every 5m"},
		"2.1: @every less than ten seconds":        {schedule: "@every 9s", want: schedule.TooOften, path: "spec.schedule"},
		"2.1: @every ten seconds":                  {schedule: "@every 10s"},
		"AC-7 2.1: TZ":                             {schedule: "TZ=Asia/Tokyo 0 3 * * *"},
		"AC-7 2.1: CRON_TZ":                        {schedule: "CRON_TZ=Asia/Tokyo @daily"},
		"2.1: a zone":                              {schedule: "0 3 * * *", zone: new("Asia/Tokyo")},
		"2.1: empty":                               {want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: a megabyte":                          {schedule: strings.Repeat("1,", 1<<19) + "1 * * * *", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: six fields":                          {schedule: "0 0 3 * * *", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: out of range":                        {schedule: "60 * * * *", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: a field without a value":             {schedule: ", * * * *", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: an unknown word":                     {schedule: "@reboot", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: @every backwards":                    {schedule: "@every -5m", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: @every nothing":                      {schedule: "@every 0s", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: what the parser panics at":           {schedule: "TZ=Asia/Tokyo", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: what the parser panics at, prefixed": {schedule: "CRON_TZ=", want: schedule.UnreadableSchedule, path: "spec.schedule"},
		"2.1: TZ of nowhere":                       {schedule: "TZ=Mars/Olympus 0 3 * * *", want: schedule.UnreadableTimeZone, path: "spec.schedule"},
		"2.1: two zones":                           {schedule: "TZ=Asia/Tokyo 0 3 * * *", zone: new("Asia/Tokyo"), want: schedule.UnreadableTimeZone, path: "spec.schedule"},
		"2.1: an empty zone":                       {schedule: "0 3 * * *", zone: new(""), want: schedule.UnreadableTimeZone, path: "spec.timeZone"},
		"2.1: Local":                               {schedule: "0 3 * * *", zone: new("lOCAL"), want: schedule.UnreadableTimeZone, path: "spec.timeZone"},
		"2.1: no such zone":                        {schedule: "0 3 * * *", zone: new("Europe/Atlantis"), want: schedule.UnreadableTimeZone, path: "spec.timeZone"},
		"2.1: a file":                              {schedule: "0 3 * * *", zone: new("../../etc/passwd"), want: schedule.UnreadableTimeZone, path: "spec.timeZone"},
		"the 31st of February":                     {schedule: "0 0 31 2 *", want: schedule.NeverDue, path: "spec.schedule"},
		"the 31st of April and June":               {schedule: "0 0 31 apr,jun *", zone: new("America/New_York"), want: schedule.NeverDue, path: "spec.schedule"},
		"the 29th of February":                     {schedule: "0 0 29 2 *"},
		"a Sunday that is a 29th of February":      {schedule: "0 0 29 2 */7"},
	} {
		t.Run(name, func(t *testing.T) {
			err := schedule.Check(tt.schedule, tt.zone, at(t, "2026-11-24T10:00:00Z"))
			if tt.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				return
			}
			var why reason.Reason
			if !errors.As(err, &why) || why.Code != tt.want || why.Path != tt.path {
				t.Fatalf("got %v, want %s at %s", err, tt.want, tt.path)
			}
		})
	}
}

// due is a result of Due as texts.
type due struct{ Slot, Newest, Next, Missed, Why string }

func shown(d schedule.Due) due {
	text := func(t time.Time) string {
		if t.IsZero() {
			return ""
		}
		return t.UTC().Format(time.RFC3339)
	}
	return due{text(d.Slot), text(d.Newest), text(d.Next), d.Missed.String(), string(d.Why.Code)}
}

func TestDue(t *testing.T) {
	for name, tt := range map[string]struct {
		schedule, zone           string
		last, created, told, now string
		from                     string
		deadline                 *int64
		want                     due
	}{
		"AC-12: nothing is due": {
			schedule: "0 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T02:59:59Z",
			want: due{Next: "2026-03-01T03:00:00Z", Missed: "0"},
		},
		"neither a last slot nor a creation": {
			schedule: "0 0 1 1 *", now: "2026-03-01T00:00:00Z", want: due{Next: "2027-01-01T00:00:00Z", Missed: "0"},
		},
		"AC-12: from the creation": {
			schedule: "0 * * * *", created: "2026-03-01T02:00:01Z", now: "2026-03-01T03:00:00Z",
			want: due{Slot: "2026-03-01T03:00:00Z", Newest: "2026-03-01T03:00:00Z", Next: "2026-03-01T04:00:00Z", Missed: "0"},
		},
		"AC-12: the newest alone": {
			schedule: "0 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T05:10:00Z",
			want: due{Slot: "2026-03-01T05:00:00Z", Newest: "2026-03-01T05:00:00Z", Next: "2026-03-01T06:00:00Z", Missed: "2"},
		},
		"AC-12: 180 slots do not block": {
			schedule: "*/1 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T05:00:30Z",
			want: due{Slot: "2026-03-01T05:00:00Z", Newest: "2026-03-01T05:00:00Z", Next: "2026-03-01T05:01:00Z", Missed: "more than 100"},
		},
		"AC-12: 101 slots": {
			schedule: "*/1 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T03:41:00Z",
			want: due{Slot: "2026-03-01T03:41:00Z", Newest: "2026-03-01T03:41:00Z", Next: "2026-03-01T03:42:00Z", Missed: "100"},
		},
		"AC-12: 102 slots": {
			schedule: "*/1 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T03:42:00Z",
			want: due{Slot: "2026-03-01T03:42:00Z", Newest: "2026-03-01T03:42:00Z", Next: "2026-03-01T03:43:00Z", Missed: "more than 100"},
		},
		"AC-12: 20 years": {
			schedule: "* * 1 1 *", last: "2006-03-01T02:00:00Z", now: "2026-03-01T05:00:30Z",
			want: due{Slot: "2026-01-01T23:59:00Z", Newest: "2026-01-01T23:59:00Z", Next: "2027-01-01T00:00:00Z", Missed: "more than 100"},
		},
		"AC-12: with a deadline of 300 s": {
			schedule: "*/1 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T05:00:30Z", deadline: new(int64(300)),
			want: due{Slot: "2026-03-01T05:00:00Z", Newest: "2026-03-01T05:00:00Z", Next: "2026-03-01T05:01:00Z", Missed: "more than 100"},
		},
		"AC-13: too late": {
			schedule: "0 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T04:05:01Z", deadline: new(int64(300)),
			want: due{Newest: "2026-03-01T04:00:00Z", Next: "2026-03-01T05:00:00Z", Missed: "2", Why: "TooLate"},
		},
		"AC-13: just in time": {
			schedule: "0 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T04:05:00Z", deadline: new(int64(300)),
			want: due{Slot: "2026-03-01T04:00:00Z", Newest: "2026-03-01T04:00:00Z", Next: "2026-03-01T05:00:00Z", Missed: "1"},
		},
		"AC-13: a deadline of nothing": {
			schedule: "0 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T03:00:00.9Z", deadline: new(int64(0)),
			want: due{Slot: "2026-03-01T03:00:00Z", Newest: "2026-03-01T03:00:00Z", Next: "2026-03-01T04:00:00Z", Missed: "0"},
		},
		"AC-13: a deadline without end": {
			schedule: "0 * * * *", last: "2026-03-01T02:00:00Z", now: "2026-03-01T03:10:00Z", deadline: new(int64(1<<63 - 1)),
			want: due{Slot: "2026-03-01T03:00:00Z", Newest: "2026-03-01T03:00:00Z", Next: "2026-03-01T04:00:00Z", Missed: "0"},
		},
		"what was told is not told again": {
			schedule: "0 * * * *", last: "2026-03-01T02:00:00Z", told: "2026-03-01T04:00:00Z", now: "2026-03-01T06:00:00Z",
			want: due{Slot: "2026-03-01T06:00:00Z", Newest: "2026-03-01T06:00:00Z", Next: "2026-03-01T07:00:00Z", Missed: "1"},
		},
		"all was told": {
			schedule: "0 * * * *", last: "2026-03-01T02:00:00Z", told: "2026-03-01T04:00:00Z", now: "2026-03-01T04:59:00Z", deadline: new(int64(300)),
			want: due{Newest: "2026-03-01T04:00:00Z", Next: "2026-03-01T05:00:00Z", Missed: "0", Why: "TooLate"},
		},
		"changed after its time": {
			schedule: "0 3 * * *", last: "2026-03-01T01:00:00Z", from: "2026-03-01T09:00:00Z", now: "2026-03-01T09:00:01Z",
			want: due{Next: "2026-03-02T03:00:00Z", Missed: "0"},
		},
		"changed at its time": {
			schedule: "0 3 * * *", last: "2026-03-01T01:00:00Z", from: "2026-03-01T03:00:00.7Z", now: "2026-03-01T03:00:01Z",
			want: due{Next: "2026-03-02T03:00:00Z", Missed: "0"},
		},
		"changed after its time, with a deadline": {
			schedule: "0 3 * * *", last: "2026-03-01T01:00:00Z", from: "2026-03-01T09:00:00Z", now: "2026-03-01T09:00:01Z", deadline: new(int64(60)),
			want: due{Next: "2026-03-02T03:00:00Z", Missed: "0"},
		},
		"changed before its time": {
			schedule: "0 3 * * *", last: "2026-03-01T01:00:00Z", from: "2026-03-01T02:59:59Z", now: "2026-03-01T09:00:00Z",
			want: due{Slot: "2026-03-01T03:00:00Z", Newest: "2026-03-01T03:00:00Z", Next: "2026-03-02T03:00:00Z", Missed: "0"},
		},
		"missed is what comes after the change": {
			schedule: "* * * * *", created: "2026-02-01T00:00:00Z", from: "2026-03-01T09:00:30Z", now: "2026-03-01T09:03:10Z",
			want: due{Slot: "2026-03-01T09:03:00Z", Newest: "2026-03-01T09:03:00Z", Next: "2026-03-01T09:04:00Z", Missed: "2"},
		},
		"@every: a change does not move slots": {
			schedule: "@every 1h", last: "2026-03-01T00:10:00Z", from: "2026-03-01T09:00:30Z", now: "2026-03-01T09:11:00Z",
			want: due{Slot: "2026-03-01T09:10:00Z", Newest: "2026-03-01T09:10:00Z", Next: "2026-03-01T10:10:00Z", Missed: "0"},
		},
		"@every: changed after its time": {
			schedule: "@every 1h", last: "2026-03-01T00:10:00Z", from: "2026-03-01T09:20:00Z", now: "2026-03-01T09:30:00Z",
			want: due{Next: "2026-03-01T10:10:00Z", Missed: "0"},
		},
		"a clock that went back": {
			schedule: "0 * * * *", last: "2026-03-01T08:00:00Z", now: "2026-03-01T03:10:00Z",
			want: due{Next: "2026-03-01T09:00:00Z", Missed: "0"},
		},
		"@every: from the creation": {
			schedule: "@every 90s", created: "2026-03-01T00:00:07Z", now: "2026-03-01T00:01:37Z",
			want: due{Slot: "2026-03-01T00:01:37Z", Newest: "2026-03-01T00:01:37Z", Next: "2026-03-01T00:03:07Z", Missed: "0"},
		},
		"@every: a deadline does not move slots": {
			schedule: "@every 5m", last: "2026-03-01T00:00:00Z", now: "2026-03-01T00:14:00Z", deadline: new(int64(300)),
			want: due{Slot: "2026-03-01T00:10:00Z", Newest: "2026-03-01T00:10:00Z", Next: "2026-03-01T00:15:00Z", Missed: "1"},
		},
		"@every: a late start does not move slots": {
			schedule: "@every 1h", last: "2026-03-01T00:00:00Z", now: "2026-03-01T01:59:59Z",
			want: due{Slot: "2026-03-01T01:00:00Z", Newest: "2026-03-01T01:00:00Z", Next: "2026-03-01T02:00:00Z", Missed: "0"},
		},
		"@every: a year of seconds": {
			schedule: "@every 1s", last: "2025-03-01T00:00:00Z", told: "2025-03-01T00:00:10Z", now: "2026-03-01T00:00:00Z",
			want: due{Slot: "2026-03-01T00:00:00Z", Newest: "2026-03-01T00:00:00Z", Next: "2026-03-01T00:00:01Z", Missed: "31535989"},
		},
		"@every: a clock that went back": {
			schedule: "@every 1h", last: "2026-03-01T08:00:00Z", now: "2026-03-01T03:10:00Z",
			want: due{Next: "2026-03-01T09:00:00Z", Missed: "0"},
		},
		"Berlin: a skipped time has no slot": { // clocks go from 2 to 3 on March 29
			schedule: "30 2 * * *", zone: "Europe/Berlin", last: "2026-03-28T01:30:00Z", now: "2026-03-29T12:00:00Z",
			want: due{Next: "2026-03-30T00:30:00Z", Missed: "0"},
		},
		"Berlin: hours go on over the skipped one": {
			schedule: "0 * * * *", zone: "Europe/Berlin", last: "2026-03-29T00:00:00Z", now: "2026-03-29T01:00:00Z",
			want: due{Slot: "2026-03-29T01:00:00Z", Newest: "2026-03-29T01:00:00Z", Next: "2026-03-29T02:00:00Z", Missed: "0"},
		},
		"Berlin: both moments of a repeated time": { // clocks go from 3 to 2 on October 25
			schedule: "30 2 * * *", zone: "Europe/Berlin", last: "2026-10-24T00:30:00Z", now: "2026-10-25T12:00:00Z",
			want: due{Slot: "2026-10-25T01:30:00Z", Newest: "2026-10-25T01:30:00Z", Next: "2026-10-26T01:30:00Z", Missed: "1"},
		},
		"New York: a skipped time has no slot": { // March 8, from 2 to 3
			schedule: "30 2 * * *", zone: "America/New_York", last: "2026-03-07T07:30:00Z", now: "2026-03-08T12:00:00Z",
			want: due{Next: "2026-03-09T06:30:00Z", Missed: "0"},
		},
		"New York: both moments of a repeated time": { // November 1, from 2 to 1
			schedule: "30 1 * * *", zone: "America/New_York", last: "2026-10-31T05:30:00Z", now: "2026-11-01T06:00:00Z",
			want: due{Slot: "2026-11-01T05:30:00Z", Newest: "2026-11-01T05:30:00Z", Next: "2026-11-01T06:30:00Z", Missed: "0"},
		},
		"Lord Howe: a time in the skipped half hour": { // October 4, from 2:00 to 2:30
			schedule: "15 2 * * *", zone: "Australia/Lord_Howe", last: "2026-10-02T15:45:00Z", now: "2026-10-04T12:00:00Z",
			want: due{Next: "2026-10-04T15:15:00Z", Missed: "0"},
		},
		"Lord Howe: a time after the repeated half hour": { // April 5, from 2:00 to 1:30
			schedule: "0 2 * * *", zone: "Australia/Lord_Howe", last: "2026-04-03T15:00:00Z", now: "2026-04-05T00:00:00Z",
			want: due{Slot: "2026-04-04T15:30:00Z", Newest: "2026-04-04T15:30:00Z", Next: "2026-04-05T15:30:00Z", Missed: "0"},
		},
		"Lord Howe: both moments of a repeated time": {
			schedule: "45 1 * * *", zone: "Australia/Lord_Howe", last: "2026-04-03T14:45:00Z", now: "2026-04-05T00:00:00Z",
			want: due{Slot: "2026-04-04T15:15:00Z", Newest: "2026-04-04T15:15:00Z", Next: "2026-04-05T15:15:00Z", Missed: "1"},
		},
		"Sao Paulo: a day without midnight": { // 2018-11-04 began at 1:00
			schedule: "0 0 * * *", zone: "America/Sao_Paulo", last: "2018-11-03T03:00:00Z", now: "2018-11-05T00:00:00Z",
			want: due{Next: "2018-11-05T02:00:00Z", Missed: "0"},
		},
		"a day that comes every eight years": {
			schedule: "0 0 29 2 *", last: "2096-02-29T00:00:00Z", now: "2099-01-01T00:00:00Z",
			want: due{Next: "2104-02-29T00:00:00Z", Missed: "0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var zone *string
			if tt.zone != "" {
				zone = &tt.zone
			}
			s, err := schedule.Parse(tt.schedule, zone, time.UTC)
			if err != nil {
				t.Fatal(err)
			}
			got := shown(s.Due(schedule.Window{
				Last: at(t, tt.last), Created: at(t, tt.created), Told: at(t, tt.told), From: at(t, tt.from), Deadline: tt.deadline, Now: at(t, tt.now),
			}))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("due (-want +got):\n%s", diff)
			}
		})
	}
}

// zones returns time zones with offsets of half hours, with clock changes of one hour or half an hour, without clock
// changes, and with days that have no midnight.
func zones() []string {
	return []string{
		"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "America/Sao_Paulo", "Asia/Kathmandu", "Africa/Casablanca",
		"Antarctica/Troll", "America/Caracas", "Pacific/Apia", "Asia/Pyongyang", "America/St_Johns",
	}
}

// matches reports whether a wall-clock time matches an expression, without the library's search.
func matches(s *cron.SpecSchedule, wall time.Time) bool {
	const star = 1 << 63
	has := func(field uint64, n int) bool { return field&(1<<uint(n)) != 0 }
	day, weekday := has(s.Dom, wall.Day()), has(s.Dow, int(wall.Weekday()))
	both := day && weekday
	if s.Dom&star == 0 && s.Dow&star == 0 {
		both = day || weekday
	}
	return both && wall.Second() == 0 && has(s.Minute, wall.Minute()) && has(s.Hour, wall.Hour()) && has(s.Month, int(wall.Month()))
}

// FuzzDue compares the result of Due with the slots that a check of every minute finds.
func FuzzDue(f *testing.F) {
	for i, begin := range []int64{
		1774742400 - 86400, // Berlin goes forward
		1792886400 - 86400, // Berlin goes back
		1772928000 - 86400, // New York goes forward
		1793491200 - 86400, // New York goes back
		1775315600 - 86400, // Lord Howe goes back
		1791040500 - 86400, // Lord Howe goes forward
		1541296800 - 86400, // Sao Paulo goes forward
		1196600000,         // Caracas goes back by half an hour
		1325200000,         // Apia leaves out a day
		1000000000,
	} {
		for _, expression := range []string{"30 2 * * *", "*/15 * * * *", "15,45 1-3 * * *", "0 0 * * *", "* * * * *", "0 2 1,15 * sun", "@hourly", "@daily"} {
			f.Add(expression, uint8(i), begin, uint16(3000), int32(-1), uint16(0))
			f.Add(expression, uint8(i+1), begin+7, uint16(4000), int32(1800), uint16(600))
		}
	}
	f.Fuzz(func(t *testing.T, expression string, zoneNumber uint8, begin int64, minutes uint16, deadline int32, told uint16) {
		zone := zones()[int(zoneNumber)%len(zones())]
		s, err := schedule.Parse(expression, &zone, time.UTC)
		parsed, cronErr := cron.ParseStandard(expression)
		spec, isSpec := parsed.(*cron.SpecSchedule)
		if err != nil || cronErr != nil || !isSpec || begin < 0 || begin > 4e9 {
			return
		}
		location, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		w := schedule.Window{
			Last: time.Unix(begin, 0).UTC(), Now: time.Unix(begin+60*int64(minutes%5000), 0).UTC(), Told: time.Unix(begin+60*int64(told), 0).UTC(),
		}
		if deadline >= 0 {
			w.Deadline = new(int64(deadline))
		}
		var slots []time.Time
		for at := (begin/60 + 1) * 60; at <= w.Now.Unix(); at += 60 {
			if wall := time.Unix(at, 0).In(location); matches(spec, wall) {
				slots = append(slots, wall)
			}
		}
		compare(t, s, w, slots)
	})
}

// compare checks the result of Due against the slots in a window.
func compare(t *testing.T, s *schedule.Schedule, w schedule.Window, slots []time.Time) {
	t.Helper()
	d := s.Due(w)
	if !d.Next.IsZero() && !d.Next.After(w.Now) {
		t.Fatalf("the next slot %s is not after %s", d.Next, w.Now)
	}
	if len(slots) == 0 {
		if !d.Newest.IsZero() || !d.Slot.IsZero() || !d.Missed.IsZero() {
			t.Fatalf("%+v, and there is no slot after %s until %s", d, w.Last, w.Now)
		}
		return
	}
	newest := slots[len(slots)-1]
	late := w.Deadline != nil && w.Now.Sub(newest) > time.Duration(*w.Deadline)*time.Second
	if !d.Newest.Equal(newest) || d.Slot.IsZero() != late || !late && !d.Slot.Equal(newest) {
		t.Fatalf("%+v, want %s, too late %t", d, newest, late)
	}
	want := int64(0)
	for _, slot := range slots {
		if slot.After(w.Told) && (late || !slot.Equal(newest)) {
			want++
		}
	}
	if d.Missed.More && want <= d.Missed.N || !d.Missed.More && want != d.Missed.N {
		t.Fatalf("missed %s, want %d", d.Missed, want)
	}
}

// FuzzEvery compares the slots of "@every" with repeated addition.
func FuzzEvery(f *testing.F) {
	f.Add(int64(1774742400), uint16(90), uint32(100000), uint32(500))
	f.Add(int64(0), uint16(1), uint32(7), uint32(0))
	f.Fuzz(func(t *testing.T, begin int64, every uint16, length, told uint32) {
		if every == 0 || begin < 0 || begin > 4e9 {
			return
		}
		length %= 200000
		s, err := schedule.Parse(fmt.Sprintf("@every %ds", every), nil, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		w := schedule.Window{Last: time.Unix(begin, 0), Now: time.Unix(begin+int64(length), 0), Told: time.Unix(begin+int64(told), 0)}
		var slots []time.Time
		for at := begin + int64(every); at <= w.Now.Unix(); at += int64(every) {
			slots = append(slots, time.Unix(at, 0))
		}
		compare(t, s, w, slots)
	})
}

// FuzzParse: for any schedule text, Parse and the methods of the Schedule return within a short time.
func FuzzParse(f *testing.F) {
	for _, text := range []string{"", "TZ=", "TZ= * * * * *", "TZ=UTC", "@every", "@every 1h", "0 0 31 2 *", "*/0 * * * *", "1-2-3 * * * *", ",,, , , , ,", "* * * * */9"} {
		f.Add(text, "Europe/Berlin", true)
		f.Add(text, "", false)
	}
	now := time.Unix(1774742400, 0).UTC()
	f.Fuzz(func(t *testing.T, text, zone string, hasZone bool) {
		var at *string
		if hasZone {
			at = &zone
		}
		if schedule.Check(text, at, now) != nil {
			return
		}
		s, err := schedule.Parse(text, at, time.UTC)
		if err != nil {
			t.Fatal(err)
		}
		if next := s.Next(now); !next.After(now) {
			t.Fatalf("%q: next %s", text, next)
		}
	})
}

func BenchmarkDue(b *testing.B) {
	zone := "Europe/Berlin"
	for name, last := range map[string]time.Duration{"nothing due": 30 * time.Second, "one due": 90 * time.Second, "a year missed": 365 * 24 * time.Hour} {
		b.Run(name, func(b *testing.B) {
			s, err := schedule.Parse("* * * * *", &zone, time.UTC)
			if err != nil {
				b.Fatal(err)
			}
			now := time.Date(2026, 3, 1, 0, 0, 30, 0, time.UTC)
			b.ReportAllocs()
			for b.Loop() {
				s.Due(schedule.Window{Last: now.Add(-last), Now: now})
			}
		})
	}
}
