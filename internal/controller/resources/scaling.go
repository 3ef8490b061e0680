// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"slices"
	"time"

	httpv1beta1 "github.com/kedacore/http-add-on/operator/apis/http/v1beta1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// The kinds of KEDA and of its HTTP add-on that sless makes. ScaledObjects are made without KEDA's own types, which would
// bring its whole dependencies along.
var (
	InterceptorRouteKind = httpv1beta1.SchemeGroupVersion.WithKind("InterceptorRoute")
	ScaledObjectKind     = schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
)

// PausedReplicasAnnotation, on a ScaledObject, holds the Deployment at its value.
const PausedReplicasAnnotation = "autoscaling.keda.sh/paused-replicas"

const (
	// A call that is too short for the interceptor's samples of concurrency shows in the rate of calls alone, for as long as
	// the rate's window, less the part of a second in which it came. So the least window is one that no call slips through,
	// and the largest one is a rate that people can set a target for.
	minRateWindow, maxRateWindow = 2 * time.Second, 10 * time.Second
	// cooldownMargin is added to the time without calls after which KEDA may scale to zero, so that it never does so early:
	// it keeps the time of the last activity in whole seconds, and hears of activity by samples.
	cooldownMargin = 2 * time.Second
	// noRateTarget lets the rate tell of activity and never ask for a replica more.
	noRateTarget = 1_000_000
	// headerGrace is added to the function's own timeout, so that the watchdog's answer comes before the interceptor's.
	headerGrace = 10 * time.Second
	// Bounds of how long the autoscaler waits before it takes replicas away that are not needed.
	minStabilization, maxStabilization = 15 * time.Second, 5 * time.Minute
)

// ScalingOptions is what the autoscaler's objects need beyond the Function.
type ScalingOptions struct {
	// Scaler is host:port of the add-on's scaler.
	Scaler string
	// StartupTimeout is how long a call waits for the first replica.
	StartupTimeout time.Duration
	// PollingInterval is how often KEDA looks whether the function is idle.
	PollingInterval time.Duration
	// DefaultConcurrency is how many calls a replica takes at once when the Function does not say. 0 is not known.
	DefaultConcurrency int32
	// Mirrors are the names of the copies of Secrets and ConfigMaps that the pods use. KEDA reads them with the pod template
	// when the ScaledObject changes, and fails later when they are gone, so the ScaledObject changes with them.
	Mirrors []string
	// Paused holds the function at zero replicas.
	Paused bool
}

// InterceptorRoute builds the route by which the interceptor finds a Function's Service, and what it counts.
func InterceptorRoute(fn *v1alpha1.Function, opt ScalingOptions) *httpv1beta1.InterceptorRoute {
	scaling := fn.Spec.Scaling
	timeout := time.Duration(timeoutSeconds(fn))*time.Second + headerGrace
	return &httpv1beta1.InterceptorRoute{
		TypeMeta:   typeMeta(InterceptorRouteKind),
		ObjectMeta: scalingMeta(fn),
		Spec: httpv1beta1.InterceptorRouteSpec{
			Target: httpv1beta1.TargetRef{Service: fn.Name, Port: naming.FunctionPort},
			Rules:  []httpv1beta1.RoutingRule{{Hosts: []string{naming.VirtualHost(fn.Namespace, fn.Name)}}},
			ScalingMetric: httpv1beta1.ScalingMetricSpec{
				Concurrency: &httpv1beta1.ConcurrencyTargetSpec{TargetValue: concurrencyAim(fn, opt)},
				RequestRate: &httpv1beta1.RequestRateTargetSpec{
					TargetValue: ptr.Deref(scaling.RequestsPerSecond, noRateTarget),
					Window:      metav1.Duration{Duration: rateWindow(scaling)},
					Granularity: metav1.Duration{Duration: time.Second},
				},
			},
			// Without timeouts the interceptor waits for ever.
			Timeouts: httpv1beta1.InterceptorRouteTimeouts{
				Readiness:      &metav1.Duration{Duration: opt.StartupTimeout},
				Request:        &metav1.Duration{Duration: opt.StartupTimeout + timeout},
				ResponseHeader: &metav1.Duration{Duration: timeout},
			},
		},
	}
}

// concurrencyAim is the number of calls in flight per replica that the autoscaler aims at. It stays below what a replica takes:
// a replica that is full refuses calls, which are over too soon to be counted.
func concurrencyAim(fn *v1alpha1.Function, opt ScalingOptions) int32 {
	const percent = 70
	aim := ptr.Deref(fn.Spec.Scaling.Concurrency, v1alpha1.DefaultScalingConcurrency)
	limit := fn.Spec.Concurrency
	if limit == 0 {
		limit = opt.DefaultConcurrency
	}
	if limit > 0 {
		aim = min(aim, limit*percent/100)
	}
	return max(aim, 1)
}

// ScaledObject builds what makes KEDA set the number of a Function's replicas.
func ScaledObject(fn *v1alpha1.Function, opt ScalingOptions) *unstructured.Unstructured {
	scaling := fn.Spec.Scaling
	idle := idleTime(scaling)
	stabilization := min(max(idle, minStabilization), maxStabilization)
	meta := scalingMeta(fn)
	obj := &unstructured.Unstructured{Object: map[string]any{
		"spec": map[string]any{
			"scaleTargetRef":        map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": fn.Name},
			"minReplicaCount":       int64(ptr.Deref(scaling.MinReplicas, 0)),
			"maxReplicaCount":       int64(ptr.Deref(scaling.MaxReplicas, v1alpha1.DefaultMaxReplicas)),
			"pollingInterval":       seconds(opt.PollingInterval),
			"cooldownPeriod":        seconds(idle + cooldownMargin),
			"initialCooldownPeriod": seconds(idle + cooldownMargin),
			"advanced": map[string]any{
				"restoreToOriginalReplicaCount": false,
				"horizontalPodAutoscalerConfig": map[string]any{
					"behavior": map[string]any{
						"scaleDown": map[string]any{"stabilizationWindowSeconds": seconds(stabilization)},
					},
				},
			},
			"triggers": []any{map[string]any{
				"type":     "external-push",
				"metadata": triggerMetadata(fn, opt),
			}},
		},
	}}
	obj.SetGroupVersionKind(ScaledObjectKind)
	obj.SetName(meta.Name)
	obj.SetNamespace(meta.Namespace)
	obj.SetLabels(meta.Labels)
	obj.SetAnnotations(meta.Annotations)
	if opt.Paused {
		Pause(obj, true)
	}
	return obj
}

// Paused tells whether a ScaledObject holds its function at zero replicas.
func Paused(scaledObject *unstructured.Unstructured) bool {
	_, paused := scaledObject.GetAnnotations()[PausedReplicasAnnotation]
	return paused
}

// Pause makes a ScaledObject hold its function at zero replicas, or let it go.
func Pause(scaledObject *unstructured.Unstructured, pause bool) {
	annotations := scaledObject.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	if pause {
		annotations[PausedReplicasAnnotation] = "0"
	} else {
		delete(annotations, PausedReplicasAnnotation)
	}
	scaledObject.SetAnnotations(annotations)
}

func triggerMetadata(fn *v1alpha1.Function, opt ScalingOptions) map[string]any {
	metadata := map[string]any{"scalerAddress": opt.Scaler, "interceptorRoute": fn.Name}
	if len(opt.Mirrors) > 0 {
		metadata["mirrors"] = naming.Key(slices.Sorted(slices.Values(opt.Mirrors))...)
	}
	return metadata
}

func idleTime(scaling *v1alpha1.FunctionScaling) time.Duration {
	return time.Duration(ptr.Deref(scaling.IdleSeconds, v1alpha1.DefaultIdleSeconds)) * time.Second
}

// rateWindow is over what time the rate of calls is taken. KEDA's wait begins when it ends, so it is short: where nobody asked
// for replicas by rate it only has to show that there was a call. KEDA also writes into the ScaledObject's status at each tick
// of the scaler while there is activity.
func rateWindow(scaling *v1alpha1.FunctionScaling) time.Duration {
	if scaling.RequestsPerSecond == nil {
		return minRateWindow
	}
	return min(max(idleTime(scaling), minRateWindow), maxRateWindow)
}

func scalingMeta(fn *v1alpha1.Function) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: fn.Name, Namespace: naming.DeployNamespace(fn.Namespace),
		Labels: OwnerLabels(fn, ComponentScaling), Annotations: OwnerAnnotations(fn),
	}
}

func typeMeta(kind schema.GroupVersionKind) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: kind.GroupVersion().String(), Kind: kind.Kind}
}

func seconds(d time.Duration) int64 { return int64(d / time.Second) }
