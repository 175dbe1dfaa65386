// Package schedule answers "which run of a schedule is due now, how many were missed, and when is the next?"
//
// A schedule is a cron expression of five fields, one of the words that stand for one (@hourly), or "@every 90s". A slot is a moment at which
// it asks for a run.
//
// # Time zones
//
// A slot is every moment at which a clock on the wall of the schedule's zone shows what the expression says. Times that are skipped when clocks go
// forward have no slot on that day. Times that come twice when clocks go back are two moments, an hour apart, and two slots. Zones come from the
// system or from the program, which should import time/tzdata: images of containers often have none.
//
// # @every
//
// Slots of "@every" are counted from the last one that was started, and before there is one from the creation. A late start does not move them, because
// what counts is the slot, and not when it was started.
//
// # Missed slots
//
// Only the newest slot that is due is started; those before it are counted as missed. However many there are, finding the newest takes
// a few dozen steps, so there is no number of missed slots that stops a schedule. The exact number is told up to [CountedMissed].
package schedule
