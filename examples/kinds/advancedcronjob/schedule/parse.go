package schedule

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/workloadkit/workloadkit/reason"
)

const (
	// UnreadableSchedule means that the text is no schedule.
	UnreadableSchedule reason.Code = "UnreadableSchedule"
	// NeverDue means that the schedule is readable, but no day matches, such as the 31st of February.
	NeverDue reason.Code = "NeverDue"
	// TooOften means that the runs of a schedule follow each other too closely.
	TooOften reason.Code = "TooOften"
	// UnreadableTimeZone means that the time zone does not exist, or the schedule has two.
	UnreadableTimeZone reason.Code = "UnreadableTimeZone"
)

// Where the values are.
const (
	schedulePath = "spec.schedule"
	zonePath     = "spec.timeZone"
)

// Schedule knows the times of runs. A Schedule is immutable and safe for concurrent use. Make a Schedule with Parse.
type Schedule struct {
	text  string
	every time.Duration // of "@every"; else zero
	cron  *cron.SpecSchedule
	zone  *time.Location
}

// mostText is how long a schedule may be. All lists of all fields have less.
const mostText = 1024

// Parse reads a schedule. zone is spec.timeZone, nil if unset; local is the zone of schedules without a zone, UTC if
// nil. The error is a Reason of this package.
func Parse(expression string, zone *string, local *time.Location) (*Schedule, error) {
	if len(expression) > mostText {
		return nil, unreadable(expression, fmt.Errorf("it has %d characters, at most %d are read", len(expression), mostText))
	}
	expression, at, err := zoneOf(expression, zone, local)
	if err != nil {
		return nil, err
	}
	parsed, err := parse(expression)
	if err != nil {
		return nil, unreadable(expression, err)
	}
	s := &Schedule{text: expression, zone: at}
	switch parsed := parsed.(type) {
	case cron.ConstantDelaySchedule:
		if s.every, err = everyOf(expression); err != nil {
			return nil, unreadable(expression, err)
		}
	case *cron.SpecSchedule:
		if slices.Contains([]uint64{parsed.Minute, parsed.Hour, parsed.Dom, parsed.Month, parsed.Dow}, 0) {
			return nil, unreadable(expression, errors.New("a field has no value"))
		}
		s.cron = parsed
	default:
		return nil, unreadable(expression, fmt.Errorf("it is a %T", parsed))
	}
	return s, nil
}

// Shortest is the shortest time between runs allowed in a new schedule. Stored schedules with shorter times are carried
// out.
const Shortest = 10 * time.Second

// Check returns why a schedule must be refused, or nil: the schedule is not readable, asks for runs more often than
// every [Shortest], or is never due after now.
func Check(expression string, zone *string, now time.Time) error {
	s, err := Parse(expression, zone, now.Location())
	if err != nil {
		return err
	}
	switch {
	case s.every > 0 && s.every < Shortest:
		return reason.Reason{
			Code: TooOften, Path: schedulePath, New: reason.Shorten(s.text, longest), Detail: "each run is an object that the API server writes several times",
			Remedy: "leave " + Shortest.String() + " between them",
		}
	case s.Next(now).IsZero():
		return s.neverDue()
	}
	return nil
}

func (s *Schedule) neverDue() reason.Reason {
	return reason.Reason{
		Code: NeverDue, Path: schedulePath, New: reason.Shorten(s.text, longest), Detail: fmt.Sprintf("is not due within %d years", horizon),
		Remedy: "name a day that exists",
	}
}

// longest is how much of a value a reason shows.
const longest = 100

func unreadable(expression string, err error) error {
	return reason.Reason{
		Code: UnreadableSchedule, Path: schedulePath, New: reason.Shorten(expression, longest), Detail: reason.Shorten(err.Error(), 2*longest),
		Remedy: "write five fields of cron, or one of @yearly, @monthly, @weekly, @daily, @hourly, @every <duration>",
	}
}

// zoneOf splits a schedule into expression and zone.
func zoneOf(expression string, zone *string, local *time.Location) (string, *time.Location, error) {
	if local == nil {
		local = time.UTC
	}
	refused := func(path, value, detail, remedy string) error {
		return reason.Reason{Code: UnreadableTimeZone, Path: path, New: reason.Shorten(value, longest), Detail: detail, Remedy: remedy}
	}
	if zone != nil {
		at, err := loadZone(*zone)
		switch {
		case err != nil:
			return "", nil, refused(zonePath, *zone, err.Error(), "name a zone of the IANA database, such as Europe/Berlin")
		case strings.Contains(expression, "TZ"):
			return "", nil, refused(schedulePath, expression, "has a time zone, and so has "+zonePath, "leave one of both out")
		}
		return expression, at, nil
	}
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		rest, ok := strings.CutPrefix(expression, prefix)
		if !ok {
			continue
		}
		name, rest, ok := strings.Cut(rest, " ")
		if !ok {
			return "", nil, unreadable(expression, errors.New("nothing follows the time zone"))
		}
		at, err := loadZone(name)
		if err != nil {
			return "", nil, refused(schedulePath, expression, err.Error(), "name a zone of the IANA database, such as Europe/Berlin, in "+zonePath)
		}
		return strings.TrimSpace(rest), at, nil
	}
	return expression, local, nil
}

// loadZone finds a zone by name. "Local" would depend on the process, and an empty name on the reader.
func loadZone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "Local") {
		return nil, errors.New("must be the name of a time zone")
	}
	if len(name) > longest {
		return nil, errors.New("no time zone has so long a name")
	}
	return time.LoadLocation(name)
}

// parse reads an expression with the library. The library panics for some invalid expressions.
func parse(expression string) (parsed cron.Schedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			parsed, err = nil, fmt.Errorf("reading it fails: %v", p)
		}
	}()
	return cron.ParseStandard(expression)
}

// everyOf reads "@every" once more: the library takes durations of zero and less for a second.
func everyOf(expression string) (time.Duration, error) {
	d, err := time.ParseDuration(strings.TrimPrefix(expression, "@every "))
	switch {
	case err != nil:
		return 0, err
	case d <= 0:
		return 0, fmt.Errorf("%s is no time to wait", d)
	}
	return max(d.Truncate(time.Second), time.Second), nil
}
