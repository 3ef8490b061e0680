// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"testing"
	"time"
	_ "time/tzdata" // the test must not depend on the machine's zone files

	"github.com/google/go-cmp/cmp"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

func at(t *testing.T, text string) time.Time {
	t.Helper()
	when, err := time.Parse(time.RFC3339, text)
	if err != nil {
		t.Fatal(err)
	}
	return when
}

func TestScheduleNext(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		schedule, zone string
		now, since     string
		// want are the ticks that follow one another.
		want []string
	}{
		"every five minutes": {
			schedule: "*/5 * * * *", now: "2026-05-01T10:02:30Z",
			want: []string{"2026-05-01T10:05:00Z", "2026-05-01T10:10:00Z"},
		},
		"a tick is not its own next": {
			schedule: "0 3 * * *", now: "2026-05-01T03:00:00Z", want: []string{"2026-05-02T03:00:00Z"},
		},
		"in a time zone": {
			schedule: "0 3 * * *", zone: "Europe/Berlin", now: "2026-05-01T00:00:00Z", want: []string{"2026-05-01T01:00:00Z"},
		},
		"day of month or weekday, as cron has it": {
			schedule: "0 0 13 * 5", now: "2026-02-10T00:00:00Z",
			want: []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z"},
		},
		"leap day": {schedule: "0 0 29 2 *", now: "2026-03-01T00:00:00Z", want: []string{"2028-02-29T00:00:00Z"}},
		"yearly":   {schedule: "@yearly", now: "2026-03-01T00:00:00Z", want: []string{"2027-01-01T00:00:00Z"}},
		// On 2026-03-29 the clocks in Berlin go from 02:00 to 03:00: 02:30 does not exist, and its run is left out.
		"spring: an hour that does not exist is left out": {
			schedule: "30 2 * * *", zone: "Europe/Berlin", now: "2026-03-28T12:00:00Z",
			want: []string{"2026-03-30T00:30:00Z"},
		},
		"spring: every hour stays every hour": {
			schedule: "0 * * * *", zone: "Europe/Berlin", now: "2026-03-28T23:30:00Z",
			want: []string{"2026-03-29T00:00:00Z", "2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z"},
		},
		// On 2026-10-25 the clocks in Berlin go from 03:00 to 02:00: 02:30 comes twice, and so does the run.
		"autumn: an hour that comes twice": {
			schedule: "30 2 * * *", zone: "Europe/Berlin", now: "2026-10-24T12:00:00Z",
			want: []string{"2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z", "2026-10-26T01:30:00Z"},
		},
		"autumn: every hour stays every hour": {
			schedule: "0 * * * *", zone: "Europe/Berlin", now: "2026-10-24T23:30:00Z",
			want: []string{"2026-10-25T00:00:00Z", "2026-10-25T01:00:00Z", "2026-10-25T02:00:00Z"},
		},
		"an interval counts from the last run": {
			schedule: "@every 90m", now: "2026-05-01T10:00:10Z", since: "2026-05-01T07:00:00Z",
			want: []string{"2026-05-01T11:30:00Z"},
		},
		"an interval that has just begun": {
			schedule: "@every 90m", now: "2026-05-01T10:00:00Z", since: "2026-05-01T10:00:00Z",
			want: []string{"2026-05-01T11:30:00Z"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule, err := ParseSchedule(&v1alpha1.CronTrigger{Schedule: tc.schedule, TimeZone: tc.zone})
			if err != nil {
				t.Fatal(err)
			}
			now, since := at(t, tc.now), time.Time{}
			if tc.since != "" {
				since = at(t, tc.since)
			}
			for _, want := range tc.want {
				next := schedule.Next(now, since)
				if got := next.UTC().Format(time.RFC3339); got != want {
					t.Errorf("after %s comes %s, want %s", now.Format(time.RFC3339), got, want)
				}
				now = next
			}
		})
	}
}

func TestParseScheduleRefuses(t *testing.T) {
	t.Parallel()
	for _, spec := range []v1alpha1.CronTrigger{{Schedule: "every day"}, {Schedule: "* * * * *", TimeZone: "Mars/Olympus"}} {
		if _, err := ParseSchedule(&spec); err == nil {
			t.Errorf("%+v is accepted", spec)
		}
	}
}

func TestValiditySince(t *testing.T) {
	t.Parallel()
	const hourly = "0 * * * *"
	job := func(schedule string, suspended bool, since, last string) *batchv1.CronJob {
		j := &batchv1.CronJob{Spec: batchv1.CronJobSpec{
			Schedule: schedule, TimeZone: new(DefaultTimeZone), Suspend: new(suspended),
		}}
		if since != "" {
			j.Annotations = map[string]string{v1alpha1.AnnotationScheduleSince: since}
		}
		if last != "" {
			j.Status.LastScheduleTime = new(metav1.NewTime(at(t, last)))
		}
		return j
	}
	now := at(t, "2026-05-01T10:20:30.5Z")
	resumed := at(t, "2026-05-01T10:20:30Z")
	tests := map[string]struct {
		existing *batchv1.CronJob
		suspend  bool
		schedule string
		deadline *int64
		want     Validity
	}{
		"a new one":                  {},
		"a new one with a deadline":  {deadline: new(int64(30)), want: Validity{Deadline: new(int64(30))}},
		"one that goes on":           {existing: job(hourly, false, "", "2026-05-01T10:00:00Z")},
		"one that never ran goes on": {existing: job(hourly, false, "", "")},
		"one that is switched off":   {existing: job(hourly, false, "", "2026-05-01T10:00:00Z"), suspend: true},
		"one that stays off":         {existing: job(hourly, true, "2026-05-01T10:20:30Z", ""), suspend: true},
		"one that is switched on: the tick of 10:00 is not made up for": {
			existing: job(hourly, true, "", "2026-05-01T07:00:00Z"),
			want:     Validity{Since: resumed, Deadline: new(int64(20*60 + 30))},
		},
		"one that is switched on, with a shorter deadline of its own": {
			existing: job(hourly, true, "", ""), deadline: new(int64(60)), want: Validity{Since: resumed, Deadline: new(int64(60))},
		},
		"one that is switched on, whose last tick is long ago": {
			existing: job("0 3 * * *", true, "", ""), schedule: "0 3 * * *", want: Validity{Since: resumed, Deadline: new(int64(3600))},
		},
		"one that is switched on right after a tick": {
			existing: job("20 10 * * *", true, "", ""), schedule: "20 10 * * *", want: Validity{Since: resumed, Deadline: new(int64(30))},
		},
		"one that was switched on and has not run since": {
			existing: job(hourly, false, "2026-05-01T10:15:00Z", "2026-05-01T07:00:00Z"),
			want:     Validity{Since: at(t, "2026-05-01T10:15:00Z"), Deadline: new(int64(15 * 60))},
		},
		"one that was switched on and ran": {existing: job(hourly, false, "2026-05-01T09:15:00Z", "2026-05-01T10:00:00Z")},
		"one that gets another schedule": {
			existing: job("0 3 * * *", false, "", "2026-05-01T03:00:00Z"), want: Validity{Since: resumed, Deadline: new(int64(20*60 + 30))},
		},
		"an interval that is switched on": {existing: job("@every 1h", true, "", ""), schedule: "@every 1h"},
		"one that was switched on two seconds after a tick": {
			existing: job("* * * * *", false, "2026-05-01T10:20:02Z", ""), schedule: "* * * * *",
			want: Validity{Since: at(t, "2026-05-01T10:20:02Z"), Deadline: new(int64(10))},
		},
		"an annotation that is no time": {existing: job(hourly, false, "yesterday", "")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wanted := &v1alpha1.CronTrigger{Schedule: hourly, StartingDeadlineSeconds: tc.deadline}
			if tc.schedule != "" {
				wanted.Schedule = tc.schedule
			}
			schedule, err := ParseSchedule(wanted)
			if err != nil {
				t.Fatal(err)
			}
			got := schedule.ValiditySince(tc.existing, wanted, tc.suspend, now)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
