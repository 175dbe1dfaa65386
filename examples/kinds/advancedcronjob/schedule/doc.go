// Package schedule answers "which run of a schedule is due now, how many were missed, and when is the next?"
//
// A schedule is a cron expression of five fields, a word for an expression (@hourly), or "@every 90s". A slot is a
// moment for a run.
//
// # Time zones
//
// Every moment when a wall clock in the schedule's zone matches the expression is a slot. Times skipped when clocks go
// forward have no slot on the day. Times repeated when clocks go back are two moments, an hour apart, and two slots.
// Zones come from the system or from the program, which should import time/tzdata: images of containers often have
// none.
//
// # @every
//
// Slots of "@every" count from the last started slot, and before the first start from the creation. A late start does
// not move the slots, because the slot counts, not the time of its start.
//
// # Missed slots
//
// Only the newest due slot is started; earlier slots count as missed. Finding the newest takes a few dozen steps for
// any number of slots, so no number of missed slots stops a schedule. Counts are exact up to [CountedMissed].
package schedule
