// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"cmp"
	"maps"
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

const (
	// ComponentScaling marks what KEDA reads.
	ComponentScaling = "scaling"
	// AnnotationPausedReplicas on a ScaledObject stops the autoscaler at a number of replicas.
	AnnotationPausedReplicas = "autoscaling.keda.sh/paused-replicas"

	// WakeTimeout is how long a call waits for a function at zero to get ready.
	WakeTimeout = time.Minute
	// answerMargin is what the interceptor waits on top of the longest call, so that it is the function that answers 504.
	answerMargin = 5 * time.Second

	defaultMaxReplicas = 10
	defaultConcurrency = 100
	defaultIdleSeconds = 300
	// maxWindow is the longest time over which calls are counted. The add-on counts nothing where it is more than about 2000
	// times the granularity.
	maxWindow = 60
	// maxPollingInterval is KEDA's default.
	maxPollingInterval = 30
	// maxStabilization is Kubernetes' default for autoscalers.
	maxStabilization = 300
	// neverRate is a target that calls never reach, so that their rate keeps a function awake and does not scale it.
	neverRate = 1_000_000
)

// ScaledObjectKind is the kind of what ScaledObject builds.
func ScaledObjectKind() schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "keda.sh", Version: "v1alpha1", Kind: "ScaledObject"}
}

// ScalingOptions is what scaling needs beside the Function itself.
type ScalingOptions struct {
	// ScalerAddress is host:port of the http-add-on's scaler, as KEDA reaches it.
	ScalerAddress string
	// Paused keeps the function at zero.
	Paused bool
	// Mirrors are those of DeploymentOptions.
	Mirrors map[Source]string
}

// InterceptorRoute builds the route by which KEDA's interceptor finds the pods of a Function, holds its calls and counts
// them. The Function must have spec.scaling.
func InterceptorRoute(fn *v1alpha1.Function) *httpv1beta1.InterceptorRoute {
	scaling := fn.Spec.Scaling
	request := WakeTimeout + time.Duration(timeoutSeconds(fn))*time.Second + answerMargin
	return &httpv1beta1.InterceptorRoute{
		TypeMeta:   metav1.TypeMeta{APIVersion: httpv1beta1.SchemeGroupVersion.String(), Kind: "InterceptorRoute"},
		ObjectMeta: scalingMeta(fn),
		Spec: httpv1beta1.InterceptorRouteSpec{
			Target: httpv1beta1.TargetRef{Service: fn.Name, Port: naming.FunctionPort},
			Rules:  []httpv1beta1.RoutingRule{{Hosts: []string{naming.VirtualHost(fn.Namespace, fn.Name)}}},
			ScalingMetric: httpv1beta1.ScalingMetricSpec{
				Concurrency: &httpv1beta1.ConcurrencyTargetSpec{TargetValue: ptr.Deref(scaling.Concurrency, defaultConcurrency)},
				// Short calls slip through between two looks at their concurrency. Their rate shows for a while, so without it a
				// function would go to zero under light, steady load.
				RequestRate: &httpv1beta1.RequestRateTargetSpec{
					TargetValue: ptr.Deref(scaling.RequestsPerSecond, neverRate),
					Window:      metav1.Duration{Duration: time.Duration(rateWindow(idleSeconds(fn))) * time.Second},
					Granularity: metav1.Duration{Duration: time.Second},
				},
			},
			// What is not set would be unlimited.
			Timeouts: httpv1beta1.InterceptorRouteTimeouts{
				Readiness:      &metav1.Duration{Duration: WakeTimeout},
				Request:        &metav1.Duration{Duration: request},
				ResponseHeader: &metav1.Duration{Duration: request},
			},
		},
	}
}

// ScaledObject builds what makes KEDA scale a Function's Deployment. The Function must have spec.scaling.
func ScaledObject(fn *v1alpha1.Function, opt ScalingOptions) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{
		"scaleTargetRef":        map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": fn.Name},
		"minReplicaCount":       int64(ptr.Deref(fn.Spec.Scaling.MinReplicas, 0)),
		"maxReplicaCount":       int64(maxReplicas(fn)),
		"pollingInterval":       pollingInterval(idleSeconds(fn)),
		"cooldownPeriod":        idleSeconds(fn) - rateWindow(idleSeconds(fn)),
		"initialCooldownPeriod": idleSeconds(fn),
		"advanced": map[string]any{
			"restoreToOriginalReplicaCount": false,
			"horizontalPodAutoscalerConfig": map[string]any{"behavior": behavior(idleSeconds(fn))},
		},
		"triggers": []any{map[string]any{"type": "external-push", "metadata": triggerMetadata(fn, opt)}},
	}}}
	obj.SetGroupVersionKind(ScaledObjectKind())
	objectMeta := scalingMeta(fn)
	obj.SetName(objectMeta.Name)
	obj.SetNamespace(objectMeta.Namespace)
	obj.SetLabels(objectMeta.Labels)
	annotations := objectMeta.Annotations
	if opt.Paused {
		annotations[AnnotationPausedReplicas] = "0"
	}
	obj.SetAnnotations(annotations)
	return obj
}

func scalingMeta(fn *v1alpha1.Function) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: fn.Name, Namespace: naming.DeployNamespace(fn.Namespace),
		Labels: OwnerLabels(fn, ComponentScaling), Annotations: OwnerAnnotations(fn),
	}
}

// triggerMetadata is what the scaler gets. KEDA reads the ConfigMaps in a container's environment whenever it connects to
// the scaler anew, by the names that it saw when the ScaledObject last changed. So other names have to change it: else KEDA
// asks for copies that are gone, and scales no more.
func triggerMetadata(fn *v1alpha1.Function, opt ScalingOptions) map[string]any {
	metadata := map[string]any{"scalerAddress": opt.ScalerAddress, "interceptorRoute": fn.Name}
	if len(opt.Mirrors) > 0 {
		metadata["mirrors"] = naming.Key(slices.Sorted(maps.Values(opt.Mirrors))...)
	}
	return metadata
}

// behavior lets a function grow to its maximum at once, and shrink when the load has been lower for a while.
func behavior(idle int64) map[string]any {
	return map[string]any{
		"scaleUp": map[string]any{
			"stabilizationWindowSeconds": int64(0),
			"policies":                   []any{map[string]any{"type": "Percent", "value": int64(900), "periodSeconds": int64(15)}},
		},
		"scaleDown": map[string]any{"stabilizationWindowSeconds": min(idle, maxStabilization)},
	}
}

func idleSeconds(fn *v1alpha1.Function) int64 {
	return int64(ptr.Deref(fn.Spec.Scaling.IdleSeconds, defaultIdleSeconds))
}

// maxReplicas is never below the minimum, which KEDA would refuse.
func maxReplicas(fn *v1alpha1.Function) int32 {
	return max(ptr.Deref(fn.Spec.Scaling.MaxReplicas, defaultMaxReplicas), ptr.Deref(fn.Spec.Scaling.MinReplicas, 0))
}

// rateWindow is the part of the idle time in which the rate of calls still shows the last one. KEDA's cooldown, which is the
// rest of it, begins after.
func rateWindow(idle int64) int64 { return clamp(idle/2, 1, maxWindow) }

// pollingInterval is how often KEDA looks whether a function is idle: that much later than wanted it may go to zero.
func pollingInterval(idle int64) int64 { return clamp(idle/10, 1, maxPollingInterval) }

func clamp[T cmp.Ordered](value, least, most T) T { return max(least, min(value, most)) }
