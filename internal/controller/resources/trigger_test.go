// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"
	"testing"
	"time"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/testutil"
)

func testTrigger(w *testutil.TriggerWrapper) *v1alpha1.Trigger {
	t := w.Obj()
	t.UID = "11111111-2222-3333-4444-555555555555"
	return t
}

func TestCronJob(t *testing.T) {
	t.Parallel()
	plain := testTrigger(testutil.MakeTrigger("nightly", "shop", "cart").Cron("0 3 * * *", ""))
	options := CronOptions{
		GatewayURL: "http://sless-gateway.sless-system.svc:80", BuilderImage: "sless:v1", TimeZone: "Etc/UTC", TimeoutSeconds: 60, StartupSeconds: 60,
	}
	testutil.Golden(t, "cronjob_plain", CronJob(plain, options))
	if CronEvent(plain) != nil {
		t.Error("a trigger without an event has a ConfigMap")
	}

	full := testTrigger(testutil.MakeTrigger(strings.Repeat("n", 52), "shop", "cart").Cron("0 3 * * 1-5", "Europe/Berlin").
		Event(`{"name": "night", "items": [1, null]}`))
	full.Spec.Cron.ConcurrencyPolicy = v1alpha1.ConcurrencyReplace
	full.Spec.Cron.Method = "PUT"
	options.ImagePullSecret = "pull"
	options.Suspend = true
	options.TimeZone = "Europe/Berlin"
	options.StartingDeadlineSeconds = new(int64(30))
	options.ScheduleSince = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	options.TimeoutSeconds = 900
	testutil.Golden(t, "cronjob_full", CronJob(full, options))
	testutil.Golden(t, "cronevent", CronEvent(full))
}

func TestHostRoutes(t *testing.T) {
	t.Parallel()
	trigger := testTrigger(testutil.MakeTrigger("web", "shop", "cart").Host("cart.example.com"))
	gateway := config.Gateway{Namespace: "sless-system", ServiceName: "sless-gateway", ServicePort: 80}
	testutil.Golden(t, "ingress_plain", Ingress(trigger, "cart.example.com", gateway))
	gateway.IngressClassName = "nginx"
	gateway.IngressTLSSecretName = "wildcard"
	gateway.IngressAnnotations = map[string]string{
		"example.com/timeout": "900", v1alpha1.AnnotationTrigger: "must not win",
	}
	testutil.Golden(t, "ingress_full", Ingress(trigger, "cart.example.com", gateway))
	gateway.HTTPRoute = &config.HTTPRoute{RequestTimeout: "0s", ParentRefs: []config.ParentRef{
		{Name: "public", Namespace: "gateways", SectionName: "https"}, {Name: "internal"},
	}}
	testutil.Golden(t, "httproute", HTTPRoute(trigger, "cart.example.com", gateway))
	gateway.HTTPRoute = &config.HTTPRoute{RequestTimeout: config.OmitTimeout, ParentRefs: []config.ParentRef{{Name: "public"}}}
	testutil.Golden(t, "httproute_plain", HTTPRoute(trigger, "cart.example.com", gateway))
}
