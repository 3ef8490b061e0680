// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func scalingFunction(scaling v1alpha1.FunctionScaling) *v1alpha1.Function {
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Obj()
	fn.Spec.Scaling = &scaling
	return fn
}

func scalingOptions() ScalingOptions {
	return ScalingOptions{ScalerAddress: "scaler.keda:9090"}
}

func TestScalingGolden(t *testing.T) {
	t.Parallel()
	plain := scalingFunction(v1alpha1.FunctionScaling{})
	full := scalingFunction(v1alpha1.FunctionScaling{
		MinReplicas: ptr.To[int32](1), MaxReplicas: ptr.To[int32](4), Concurrency: ptr.To[int32](8),
		RequestsPerSecond: ptr.To[int32](50), IdleSeconds: ptr.To[int32](20),
	})
	full.Spec.TimeoutSeconds = 900
	options := scalingOptions()
	options.Paused = true
	options.Mirrors = map[Source]string{{SourceConfigMap, "settings"}: "cart-0123456789", {SourceSecret, "keys"}: "cart-9876543210"}
	testutil.Golden(t, "interceptorroute_plain", InterceptorRoute(plain))
	testutil.Golden(t, "interceptorroute_full", InterceptorRoute(full))
	testutil.Golden(t, "scaledobject_plain", ScaledObject(plain, scalingOptions()))
	testutil.Golden(t, "scaledobject_full", ScaledObject(full, options))
}

// TestIdleTime holds the parts of the idle time to their sum, which is what the user asked for.
func TestIdleTime(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		idle                               int32
		wantWindow                         time.Duration
		wantCooldown, wantPoll, wantSettle int64
	}{
		"least":           {idle: 1, wantWindow: time.Second, wantCooldown: 0, wantPoll: 1, wantSettle: 1},
		"ten seconds":     {idle: 10, wantWindow: 5 * time.Second, wantCooldown: 5, wantPoll: 1, wantSettle: 10},
		"default":         {idle: 300, wantWindow: time.Minute, wantCooldown: 240, wantPoll: 30, wantSettle: 300},
		"a day, the most": {idle: 86400, wantWindow: time.Minute, wantCooldown: 86340, wantPoll: 30, wantSettle: 300},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := scalingFunction(v1alpha1.FunctionScaling{IdleSeconds: &tc.idle})
			if got := InterceptorRoute(fn).Spec.ScalingMetric.RequestRate.Window.Duration; got != tc.wantWindow {
				t.Errorf("window %s, want %s", got, tc.wantWindow)
			}
			so := ScaledObject(fn, scalingOptions())
			for field, want := range map[string]int64{
				"cooldownPeriod": tc.wantCooldown, "pollingInterval": tc.wantPoll, "initialCooldownPeriod": int64(tc.idle),
			} {
				if got, _, err := unstructured.NestedInt64(so.Object, "spec", field); err != nil || got != want {
					t.Errorf("%s %d, want %d (error %v)", field, got, want, err)
				}
			}
			got, _, err := unstructured.NestedInt64(so.Object, "spec", "advanced", "horizontalPodAutoscalerConfig", "behavior",
				"scaleDown", "stabilizationWindowSeconds")
			if err != nil || got != tc.wantSettle {
				t.Errorf("stabilization %d, want %d (error %v)", got, tc.wantSettle, err)
			}
		})
	}
}

func TestScaledObjectBounds(t *testing.T) {
	t.Parallel()
	fn := scalingFunction(v1alpha1.FunctionScaling{MinReplicas: ptr.To[int32](20)})
	got, _, err := unstructured.NestedInt64(ScaledObject(fn, scalingOptions()).Object, "spec", "maxReplicaCount")
	if err != nil || got != 20 {
		t.Errorf("at least 20 replicas, at most %d (error %v): KEDA refuses less than the minimum", got, err)
	}
}

// TestScaledObjectFollowsMirrors: other copies of what the pods refer to must change the ScaledObject.
func TestScaledObjectFollowsMirrors(t *testing.T) {
	t.Parallel()
	fn := scalingFunction(v1alpha1.FunctionScaling{})
	seen := map[string]string{}
	for name, mirrors := range map[string]map[Source]string{
		"none": nil, "first": {{SourceConfigMap, "settings"}: "cart-1"}, "second": {{SourceConfigMap, "settings"}: "cart-2"},
	} {
		options := scalingOptions()
		options.Mirrors = mirrors
		triggers, _, err := unstructured.NestedSlice(ScaledObject(fn, options).Object, "spec", "triggers")
		if err != nil || len(triggers) != 1 {
			t.Fatalf("triggers %v, error %v", triggers, err)
		}
		trigger, ok := triggers[0].(map[string]any)
		if !ok {
			t.Fatalf("trigger is %T", triggers[0])
		}
		key, _, err := unstructured.NestedString(trigger, "metadata", "mirrors")
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s and %s have the same metadata", name, other)
		}
		seen[key] = name
	}
}
