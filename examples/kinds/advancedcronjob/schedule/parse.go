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
	// UnreadableSchedule means that the schedule cannot be parsed.
	UnreadableSchedule reason.Code = "UnreadableSchedule"
	// NeverDue means that the schedule can be parsed but never matches, for example because it asks for the 31st of
	// February.
	NeverDue reason.Code = "NeverDue"
	// TooOften means that the intervals between the slots are too short.
	TooOften reason.Code = "TooOften"
	// UnreadableTimeZone means that the time zone does not exist, or that two time zones are given.
	UnreadableTimeZone reason.Code = "UnreadableTimeZone"
)

// These are paths of fields in the spec.
const (
	schedulePath = "spec.schedule"
	zonePath     = "spec.timeZone"
)

// Schedule computes the slots of a schedule. A Schedule is immutable and safe for concurrent use. Parse makes a
// Schedule.
type Schedule struct {
	text  string
	every time.Duration // the interval of "@every", otherwise zero
	cron  *cron.SpecSchedule
	zone  *time.Location
}

// mostText is the largest length of a schedule. Even a schedule that lists all values of all fields is shorter.
const mostText = 1024

// Parse parses a schedule expression. zone is spec.timeZone, or nil if unset. local is the time zone for schedules that
// name no time zone; nil means UTC. The error is a Reason of this package.
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

// Shortest is the shortest interval between slots that a new schedule may have. Stored schedules with shorter intervals
// still run.
const Shortest = 10 * time.Second

// Check returns an error if a new schedule must be refused: the schedule cannot be parsed, has intervals shorter than
// [Shortest], or is never due after now.
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

// longest is how many characters of an invalid value an error contains at most.
const longest = 100

func unreadable(expression string, err error) error {
	return reason.Reason{
		Code: UnreadableSchedule, Path: schedulePath, New: reason.Shorten(expression, longest), Detail: reason.Shorten(err.Error(), 2*longest),
		Remedy: "write five fields of cron, or one of @yearly, @monthly, @weekly, @daily, @hourly, @every <duration>",
	}
}

// zoneOf separates a time zone at the beginning of a schedule from the expression.
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

// loadZone loads a time zone by name. "Local" is refused because its meaning depends on the process, and an empty name
// because its meaning is unclear.
func loadZone(name string) (*time.Location, error) {
	if name == "" || strings.EqualFold(name, "Local") {
		return nil, errors.New("must be the name of a time zone")
	}
	if len(name) > longest {
		return nil, errors.New("no time zone has so long a name")
	}
	return time.LoadLocation(name)
}

// parse parses an expression with the cron library. The library panics for some invalid expressions.
func parse(expression string) (parsed cron.Schedule, err error) {
	defer func() {
		if p := recover(); p != nil {
			parsed, err = nil, fmt.Errorf("reading it fails: %v", p)
		}
	}()
	return cron.ParseStandard(expression)
}

// everyOf parses "@every" expressions again, because the library replaces durations of zero and less by a second.
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
