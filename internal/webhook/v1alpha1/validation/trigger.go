// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"github.com/robfig/cron/v3"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/naeel/sless/api/v1alpha1"
)

// ValidateTrigger returns every problem of a Trigger's name and spec that the schema lets through. A schedule without a
// problem is one that the CronJob controller takes.
func ValidateTrigger(t *v1alpha1.Trigger) []Problem {
	spec := field.NewPath("spec")
	problems := validateName(t.Name)
	problems = append(problems, validateFunctionRef(t.Spec.FunctionRef, spec.Child("functionRef", "name"))...)
	if t.Spec.HTTP != nil {
		problems = append(problems, validateHost(t.Spec.HTTP.Host, spec.Child("http", "host"))...)
	}
	if t.Spec.Type != v1alpha1.TriggerTypeCron {
		return problems
	}
	path := spec.Child("cron")
	if t.Spec.Cron == nil {
		return append(problems, invalidSpec(field.Required(path, "a trigger of type cron needs a schedule")))
	}
	problems = append(problems, validateSchedule(t.Spec.Cron.Schedule, path.Child("schedule"))...)
	problems = append(problems, validateTimeZone(t.Spec.Cron.TimeZone, path.Child("timeZone"))...)
	return append(problems, validateEvent(t.Spec.Cron.Event, v1alpha1.MaxEventBytes, path.Child("event"))...)
}

// validateHost refuses what the schema's pattern takes and no Ingress or HTTPRoute would.
func validateHost(host string, path *field.Path) []Problem {
	if host == "" {
		return nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return []Problem{invalidSpec(field.Invalid(path, host, "must be a host name, such as hello.example.com, not an IP address"))}
	}
	for label := range strings.SplitSeq(host, ".") {
		if len(label) > validation.DNS1123LabelMaxLength {
			return []Problem{invalidSpec(field.Invalid(path, host, fmt.Sprintf(
				"each part between dots may have %d characters", validation.DNS1123LabelMaxLength)))}
		}
	}
	return nil
}

const scheduleHelp = `use five fields "minute hour day month weekday", such as "*/5 * * * *", or @hourly, @daily, @weekly, ` +
	"@monthly, @yearly"

func validateSchedule(schedule string, path *field.Path) []Problem {
	invalid := func(detail string) []Problem {
		return []Problem{{Reason: v1alpha1.ReasonScheduleInvalid, Err: field.Invalid(path, schedule, detail)}}
	}
	// No valid expression holds these letters, so that nothing else is refused by this.
	if strings.Contains(schedule, "TZ") {
		return invalid("may not name a time zone; set spec.cron.timeZone instead")
	}
	parsed, err := parseSchedule(schedule)
	if err != nil {
		return invalid(err.Error() + "; " + scheduleHelp)
	}
	if parsed.Next(time.Date(2000, time.January, 1, 0, 0, 0, 0, time.UTC)).IsZero() {
		return invalid("is never due: no such day exists")
	}
	return nil
}

// parseSchedule parses as the CronJob controller does. The parser panics on some input.
func parseSchedule(schedule string) (parsed cron.Schedule, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("not a cron expression")
		}
	}()
	return cron.ParseStandard(schedule)
}

// timeZonePart is what the API server accepts between the slashes of a CronJob's time zone.
var timeZonePart = regexp.MustCompile(`^[A-Za-z._0-9+][-A-Za-z._0-9+]{0,13}$`)

func validateTimeZone(name string, path *field.Path) []Problem {
	if name == "" {
		return nil
	}
	invalid := []Problem{{
		Reason: v1alpha1.ReasonTimeZoneUnknown,
		Err:    field.Invalid(path, name, "is not a time zone of the IANA database; use a name such as Europe/Berlin or Etc/UTC"),
	}}
	// "Local" would be the zone of whatever machine reads it.
	if strings.EqualFold(name, "Local") {
		return invalid
	}
	for part := range strings.SplitSeq(name, "/") {
		if part == "." || part == ".." || !timeZonePart.MatchString(part) {
			return invalid
		}
	}
	if _, err := time.LoadLocation(name); err != nil {
		return invalid
	}
	return nil
}
