// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func scalingOptions() ScalingOptions {
	return ScalingOptions{
		Scaler: "scaler.keda:9090", StartupTimeout: time.Minute, PollingInterval: 5 * time.Second,
	}
}

func scalingFunction(scaling v1alpha1.FunctionScaling) *v1alpha1.Function {
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Timeout(20).Obj()
	fn.Spec.Scaling = &scaling
	return fn
}

func TestScalingGolden(t *testing.T) {
	t.Parallel()
	plain := scalingFunction(v1alpha1.FunctionScaling{})
	full := scalingFunction(v1alpha1.FunctionScaling{
		MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](4), Concurrency: ptr.To[int32](8),
		RequestsPerSecond: ptr.To[int32](50), IdleSeconds: ptr.To[int32](20),
	})
	paused := scalingOptions()
	paused.Paused, paused.Mirrors = true, []string{"two", "one"}
	testutil.Golden(t, "interceptorroute_plain", InterceptorRoute(plain, scalingOptions()))
	testutil.Golden(t, "interceptorroute_full", InterceptorRoute(full, scalingOptions()))
	testutil.Golden(t, "scaledobject_plain", ScaledObject(plain, scalingOptions()))
	testutil.Golden(t, "scaledobject_full", ScaledObject(full, paused))
}

func TestConcurrencyAim(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		aim         *int32
		limit       int32
		wantDefault int32
		want        int32
	}{
		"defaults":                    {wantDefault: 100, want: 70},
		"set low":                     {aim: ptr.To[int32](5), wantDefault: 100, want: 5},
		"more than a replica takes":   {aim: ptr.To[int32](50), limit: 10, wantDefault: 100, want: 7},
		"one call at a time":          {limit: 1, wantDefault: 100, want: 1},
		"nothing is known of a limit": {aim: ptr.To[int32](300), want: 300},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := scalingFunction(v1alpha1.FunctionScaling{Concurrency: tc.aim})
			fn.Spec.Concurrency = tc.limit
			if got := concurrencyAim(fn, ScalingOptions{DefaultConcurrency: tc.wantDefault}); got != tc.want {
				t.Errorf("aim %d, want %d", got, tc.want)
			}
		})
	}
}

func TestTimesOfAnIdleFunction(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		idle, rate              *int32
		window                  time.Duration
		cooldown, stabilization int64
	}{
		"default":           {window: 2 * time.Second, cooldown: 302, stabilization: 300},
		"a second":          {idle: ptr.To[int32](1), window: 2 * time.Second, cooldown: 3, stabilization: 15},
		"a minute":          {idle: ptr.To[int32](60), window: 2 * time.Second, cooldown: 62, stabilization: 60},
		"a day":             {idle: ptr.To[int32](86400), window: 2 * time.Second, cooldown: 86402, stabilization: 300},
		"by rate":           {rate: ptr.To[int32](5), window: 10 * time.Second, cooldown: 302, stabilization: 300},
		"by rate, a second": {rate: ptr.To[int32](5), idle: ptr.To[int32](1), window: 2 * time.Second, cooldown: 3, stabilization: 15},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := scalingFunction(v1alpha1.FunctionScaling{IdleSeconds: tc.idle, RequestsPerSecond: tc.rate})
			window := InterceptorRoute(fn, scalingOptions()).Spec.ScalingMetric.RequestRate.Window.Duration
			got := []any{window}
			for _, path := range []string{
				"cooldownPeriod", "initialCooldownPeriod",
				"advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds",
			} {
				fields := append([]string{"spec"}, strings.Split(path, ".")...)
				value, _, err := unstructured.NestedInt64(ScaledObject(fn, scalingOptions()).Object, fields...)
				if err != nil {
					t.Error(err)
				}
				got = append(got, value)
			}
			if diff := cmp.Diff([]any{tc.window, tc.cooldown, tc.cooldown, tc.stabilization}, got); diff != "" {
				t.Errorf("window, both cooldowns and stabilization (-want +got):\n%s", diff)
			}
		})
	}
}

func TestOnlyAPausedScaledObjectHasTheAnnotation(t *testing.T) {
	t.Parallel()
	options := scalingOptions()
	for _, paused := range []bool{true, false} {
		options.Paused = paused
		_, has := ScaledObject(scalingFunction(v1alpha1.FunctionScaling{}), options).GetAnnotations()[PausedReplicasAnnotation]
		if has != paused {
			t.Errorf("paused %v, annotation %v", paused, has)
		}
	}
}
