// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"strings"
	"testing"
	_ "time/tzdata" // As in the manager.

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

// reasons returns what is compared in tests: reason and field of each problem.
func reasons(problems []Problem) []string {
	var all []string
	for _, p := range problems {
		all = append(all, p.Reason+" "+p.Err.Field)
	}
	return all
}

func TestValidateTrigger(t *testing.T) {
	t.Parallel()
	http := func() *testutil.TriggerWrapper { return testutil.MakeTrigger("t", "n", "f") }
	cron := func(schedule string) *v1alpha1.Trigger { return http().Cron(schedule, "").Obj() }
	zone := func(zone string) *v1alpha1.Trigger { return http().Cron("@daily", zone).Obj() }
	event := func(event string) *v1alpha1.Trigger { return http().Cron("@daily", "").Event(event).Obj() }
	name := func(name string) *v1alpha1.Trigger { return testutil.MakeTrigger(name, "n", "f").Obj() }
	noCron := cron("@daily")
	noCron.Spec.Cron = nil
	badSchedule := []string{"ScheduleInvalid spec.cron.schedule"}
	badZone := []string{"TimeZoneUnknown spec.cron.timeZone"}
	badHost := []string{"InvalidSpec spec.http.host"}
	badName := []string{"InvalidSpec metadata.name"}
	badRef := []string{"InvalidSpec spec.functionRef.name"}
	tests := map[string]struct {
		trigger *v1alpha1.Trigger
		want    []string
		// wantText must be in the first problem.
		wantText string
	}{
		"http":                      {trigger: http().Obj()},
		"host":                      {trigger: http().Host("hello.example.com").Obj()},
		"host that is an address":   {trigger: http().Host("10.0.0.1").Obj(), want: badHost, wantText: "not an IP address"},
		"host label of 64":          {trigger: http().Host(strings.Repeat("a", 64) + ".com").Obj(), want: badHost, wantText: "63"},
		"host label of 63":          {trigger: http().Host(strings.Repeat("a", 63) + ".com").Obj()},
		"five fields":               {trigger: cron("*/5 0-4,8 1 jan-dec MON")},
		"hourly":                    {trigger: cron("@hourly")},
		"every":                     {trigger: cron("@every 90s")},
		"29 February":               {trigger: cron("0 0 29 2 *")},
		"30 February":               {trigger: cron("0 0 30 2 *"), want: badSchedule, wantText: "never due"},
		"six fields":                {trigger: cron("0 * * * * *"), want: badSchedule, wantText: "minute hour day month weekday"},
		"minute 60":                 {trigger: cron("60 * * * *"), want: badSchedule, wantText: "above maximum"},
		"words":                     {trigger: cron("every day"), want: badSchedule, wantText: "@daily"},
		"spaces":                    {trigger: cron("  "), want: badSchedule},
		"descriptor unknown":        {trigger: cron("@noon"), want: badSchedule},
		"zone in the schedule":      {trigger: cron("TZ=Europe/Berlin 0 3 * * *"), want: badSchedule, wantText: "spec.cron.timeZone"},
		"cron zone in the schedule": {trigger: cron("CRON_TZ=UTC 0 3 * * *"), want: badSchedule, wantText: "spec.cron.timeZone"},
		"what the parser chokes on": {trigger: cron("TZ=0"), want: badSchedule},
		"zone":                      {trigger: zone("Europe/Berlin")},
		"zone of three parts":       {trigger: zone("America/Argentina/Buenos_Aires")},
		"zone unknown":              {trigger: zone("Europe/Atlantis"), want: badZone, wantText: "Europe/Berlin"},
		"zone of the machine":       {trigger: zone("Local"), want: badZone},
		"zone of the machine, small": {
			trigger: zone("local"), want: badZone,
		},
		"zone by a path":            {trigger: zone("../zoneinfo/UTC"), want: badZone},
		"event":                     {trigger: event(`{"a":[1,null]}`)},
		"event null":                {trigger: event(`null`)},
		"event that is no JSON":     {trigger: event(`{"a":`), want: []string{"EventInvalid spec.cron.event"}},
		"event of 64 KiB":           {trigger: event(`"` + strings.Repeat("x", v1alpha1.MaxEventBytes-2) + `"`)},
		"event of 64 KiB and 1":     {trigger: event(`"` + strings.Repeat("x", v1alpha1.MaxEventBytes-1) + `"`), want: []string{"EventTooLarge spec.cron.event"}},
		"cron without cron":         {trigger: noCron, want: []string{"InvalidSpec spec.cron"}},
		"name of 52":                {trigger: name(strings.Repeat("a", 52))},
		"name of 53":                {trigger: name(strings.Repeat("a", 53)), want: badName, wantText: "52 characters"},
		"name that is a number":     {trigger: name("2026")},
		"name with a dot":           {trigger: name("a.b"), want: badName, wantText: "lower-case letters"},
		"function of another place": {trigger: testutil.MakeTrigger("t", "n", "other/f").Obj(), want: badRef, wantText: "same namespace"},
		"function too long":         {trigger: testutil.MakeTrigger("t", "n", strings.Repeat("a", 53)).Obj(), want: badRef},
		"everything wrong at once": {
			trigger: testutil.MakeTrigger("a.b", "n", "F").Cron("x", "y").Event("z").Obj(),
			want:    []string{badName[0], badRef[0], badSchedule[0], badZone[0], "EventInvalid spec.cron.event"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := ValidateTrigger(tc.trigger)
			if diff := cmp.Diff(tc.want, reasons(problems)); diff != "" {
				t.Fatalf("problems (-want +got):\n%s", diff)
			}
			if tc.wantText != "" && !strings.Contains(problems[0].Err.Error(), tc.wantText) {
				t.Errorf("%q does not say %q", problems[0].Err, tc.wantText)
			}
		})
	}
}

func TestValidateFunctionJob(t *testing.T) {
	t.Parallel()
	job := func(name string) *testutil.FunctionJobWrapper { return testutil.MakeFunctionJob(name, "n", "f") }
	huge := `"` + strings.Repeat("x", v1alpha1.MaxJobEventBytes) + `"`
	tests := map[string]struct {
		job  *v1alpha1.FunctionJob
		want []string
	}{
		"without an event":    {job: job("j").Obj()},
		"with an event":       {job: job("j").Run(1).Event(`[1]`).Obj()},
		"event that is huge":  {job: job("j").Run(1).Event(huge).Obj(), want: []string{"EventTooLarge spec.event"}},
		"event that is cut":   {job: job("j").Run(1).Event(`[1`).Obj(), want: []string{"EventInvalid spec.event"}},
		"name too long":       {job: job(strings.Repeat("j", 53)).Run(1).Obj(), want: []string{"InvalidSpec metadata.name"}},
		"function impossible": {job: testutil.MakeFunctionJob("j", "n", "1f").Run(1).Obj(), want: []string{"InvalidSpec spec.functionRef.name"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, reasons(ValidateFunctionJob(tc.job))); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzValidateSchedule looks for expressions that the parser, or the search for the next time, cannot bear.
func FuzzValidateSchedule(f *testing.F) {
	for _, seed := range []string{"* * * * *", "TZ=0", "@every 1s", "0 0 30 2 *", "*/0 * * * *", "1-0 * * * *"} {
		f.Add(seed)
	}
	f.Fuzz(func(_ *testing.T, schedule string) {
		_ = fmt.Sprint(validateSchedule(schedule, nil))
	})
}
