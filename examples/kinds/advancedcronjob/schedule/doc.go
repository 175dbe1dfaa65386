// Package schedule answers "which run of a schedule is due now, how many were missed, and when is the next?"
//
// A schedule is a cron expression of five fields, a word for such an expression (@hourly), or "@every 90s". A slot is a
// time at which a run is due.
//
// # Time zones
//
// Every time at which a wall clock in the schedule's time zone matches the expression is a slot. When clocks are set
// forward, the skipped times are not slots on this day. When clocks are set back, the repeated times are two slots, an
// hour apart. Time zone data come from the system or from the binary. A program that uses this package should import
// time/tzdata, because container images often have no such data.
//
// # @every
//
// Slots of "@every" are counted from the last slot whose run was started, or from the object's creation before the
// first start. A late start does not delay later slots, because later slots are counted from the slot, not from the
// time at which its run was started.
//
// # Missed slots
//
// Only the newest due slot is started; all due slots before the newest count as missed. A search finds the newest slot
// in a few dozen steps, whatever the number of slots, so many missed slots cannot block a schedule. The number of
// missed slots is exact up to [CountedMissed].
package schedule
