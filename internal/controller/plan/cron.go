// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"time"

	"github.com/robfig/cron/v3"
	batchv1 "k8s.io/api/batch/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

const (
	// DefaultTimeZone is that of a schedule that names none. Without it a CronJob would go by the zone of the machine that
	// runs the CronJob controller.
	DefaultTimeZone = "Etc/UTC"
	// maxLookBack bounds the search for the tick before a moment.
	maxLookBack = time.Hour
	// minDeadline is what a CronJob needs to start at all when its controller is a little late.
	minDeadline = 10 * time.Second
)

// Schedule is a cron expression in its time zone. It must have passed validation.
type Schedule struct {
	parsed cron.Schedule
}

// ParseSchedule reads the schedule of a Trigger exactly as the CronJob controller does.
func ParseSchedule(spec *v1alpha1.CronTrigger) (Schedule, error) {
	zone := TimeZoneOf(spec)
	if _, err := time.LoadLocation(zone); err != nil {
		return Schedule{}, fmt.Errorf("reading the time zone: %w", err)
	}
	parsed, err := cron.ParseStandard("TZ=" + zone + " " + spec.Schedule)
	if err != nil {
		return Schedule{}, fmt.Errorf("reading the schedule: %w", err)
	}
	return Schedule{parsed: parsed}, nil
}

// TimeZoneOf returns the time zone of a schedule.
func TimeZoneOf(spec *v1alpha1.CronTrigger) string {
	return cmp.Or(spec.TimeZone, DefaultTimeZone)
}

// Next returns the first tick after now. since is the last tick, or when the schedule began: an interval (@every) counts
// from there, and other schedules do not depend on it.
func (s Schedule) Next(now, since time.Time) time.Time {
	every, ok := s.parsed.(cron.ConstantDelaySchedule)
	if !ok || since.IsZero() || since.After(now) {
		return s.parsed.Next(now)
	}
	first := every.Next(since)
	if first.After(now) {
		return first
	}
	return first.Add((now.Sub(first)/every.Delay + 1) * every.Delay)
}

// sinceLast returns the time between the last tick at or before now, and now: an hour when that was longer ago.
func (s Schedule) sinceLast(now time.Time) time.Duration {
	last := time.Time{}
	for t := s.parsed.Next(now.Add(-maxLookBack)); !t.IsZero() && !t.After(now); t = s.parsed.Next(t) {
		last = t
	}
	if last.IsZero() {
		return maxLookBack
	}
	return now.Sub(last)
}

// Validity says from when on the ticks of a CronJob count, and how late a run may start.
type Validity struct {
	// Since is zero when all ticks since the last run, or since the CronJob was made, count.
	Since time.Time
	// Deadline is nil when a run may start at any time.
	Deadline *int64
}

// ValiditySince decides from when on the ticks of a CronJob count. existing is nil before the CronJob is made.
//
// A CronJob that is switched on again, or gets another schedule, starts at once what it missed since its last run. A Trigger
// does not: while it was off, or had another schedule, nothing was due. So until the first tick that counts has come, the
// deadline is so short that no earlier tick can be made up for.
func (s Schedule) ValiditySince(existing *batchv1.CronJob, wanted *v1alpha1.CronTrigger, suspend bool, now time.Time) Validity {
	all := Validity{Deadline: wanted.StartingDeadlineSeconds}
	// The ticks of an interval are counted from the last run, so that a short deadline would never let one come.
	if _, interval := s.parsed.(cron.ConstantDelaySchedule); interval || existing == nil || suspend {
		return all
	}
	since, began := time.Parse(time.RFC3339, existing.Annotations[v1alpha1.AnnotationScheduleSince])
	if changed(existing, wanted) {
		since, began = now, nil
	}
	if last := existing.Status.LastScheduleTime; began != nil || (last != nil && last.After(since)) {
		return all
	}
	deadline := max(s.sinceLast(since).Truncate(time.Second), minDeadline)
	seconds := int64(deadline / time.Second)
	if wanted.StartingDeadlineSeconds != nil {
		seconds = min(seconds, *wanted.StartingDeadlineSeconds)
	}
	return Validity{Since: since.Truncate(time.Second), Deadline: &seconds}
}

// changed tells whether a CronJob is about to be switched on, or to get another schedule.
func changed(existing *batchv1.CronJob, wanted *v1alpha1.CronTrigger) bool {
	zone := ""
	if existing.Spec.TimeZone != nil {
		zone = *existing.Spec.TimeZone
	}
	return (existing.Spec.Suspend != nil && *existing.Spec.Suspend) ||
		existing.Spec.Schedule != wanted.Schedule || zone != TimeZoneOf(wanted)
}
