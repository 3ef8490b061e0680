// SPDX-License-Identifier: Apache-2.0

package gateway

import (
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// buildRetryAfter is what callers of a function that is on its way are told to wait.
const buildRetryAfter = 5 * time.Second

// Route says where the calls of a function go.
type Route struct {
	// Function is the function that is called.
	Function types.NamespacedName
	// Host is the upstream's host:port. It speaks HTTP/1.1 without TLS.
	Host string
	// Timeout is what the function grants one call.
	Timeout time.Duration
	// Scales tells that an autoscaler sets the number of replicas, so that calls go through its interceptor, which knows the
	// function by VirtualHost.
	Scales      bool
	VirtualHost string
	// Cold tells that no replica is ready: a call waits until one is.
	Cold bool
	// Trouble says what is wrong with the autoscaler, and is empty when nothing is.
	Trouble string
	// Capacity is how many calls the function's replicas take at once.
	Capacity int
}

// Concurrency tells how many calls a replica takes at once when its Function, whose spec.runtime it is given, does not say.
// Catalogue.DefaultConcurrency of package runtimes is one: what a replica is started with.
type Concurrency func(runtime string) int32

// routeFor decides whether calls of fn are answered, and where. clusterDomain is appended to the Service's name when it
// is not empty. It decides on the phase Disabled and on the condition Available, never on Ready: a function whose newer
// version failed is not Ready and still answers.
func routeFor(fn *v1alpha1.Function, clusterDomain string, usual Concurrency) (Route, *Refusal) {
	key := types.NamespacedName{Namespace: fn.Namespace, Name: fn.Name}
	if !fn.DeletionTimestamp.IsZero() {
		return Route{}, notFound(fmt.Sprintf("function %s is being deleted", key))
	}
	if fn.Status.Phase == v1alpha1.PhaseDisabled {
		return Route{}, &Refusal{
			Status: http.StatusServiceUnavailable, Reason: v1alpha1.ReasonDisabled,
			Message: explain(fmt.Sprintf("function %s is disabled", key), readyOf(fn).Message),
		}
	}
	if !meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ConditionAvailable) && !startsNow(fn) {
		return Route{}, notAvailable(key, fn)
	}
	route := Route{
		Function: key, Host: upstreamHost(key, clusterDomain), Timeout: timeoutOf(fn), Capacity: capacityOf(fn, usual),
	}
	if scales(fn) {
		route.Scales, route.VirtualHost, route.Cold = true, naming.VirtualHost(key.Namespace, key.Name), cold(fn)
		route.Trouble = troubleOf(fn)
	}
	return route, nil
}

// scales tells whether the interceptor has a route to the function.
func scales(fn *v1alpha1.Function) bool {
	scaling := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionScalingActive)
	return scaling != nil && (scaling.Status == metav1.ConditionTrue || scaling.Reason == v1alpha1.ReasonAutoscalerFailed)
}

func troubleOf(fn *v1alpha1.Function) string {
	scaling := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionScalingActive)
	if scaling == nil || scaling.Reason != v1alpha1.ReasonAutoscalerFailed {
		return ""
	}
	return scaling.Message
}

func cold(fn *v1alpha1.Function) bool {
	available := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionAvailable)
	return available != nil && (available.Reason == v1alpha1.ReasonAtZero || available.Reason == v1alpha1.ReasonWaking)
}

// startsNow tells whether pods are on their way and nothing is known to be wrong with them: the call is sent, and waits in
// the retries of the connection. So a lost pod costs time and no call.
func startsNow(fn *v1alpha1.Function) bool {
	available := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionAvailable)
	ready := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionReady)
	return available != nil && available.Reason == v1alpha1.ReasonRollingOut &&
		ready != nil && ready.Reason == v1alpha1.ReasonRollingOut
}

func notAvailable(key types.NamespacedName, fn *v1alpha1.Function) *Refusal {
	ready := readyOf(fn)
	refusal := &Refusal{
		Status: http.StatusServiceUnavailable, Reason: ready.Reason,
		Message: explain(fmt.Sprintf("function %s is not available", key), ready.Message),
	}
	if underWay(fn) {
		refusal.RetryAfter = buildRetryAfter
	}
	return refusal
}

// readyOf returns the condition that explains why a function is not available. It is never nil.
func readyOf(fn *v1alpha1.Function) *metav1.Condition {
	ready := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil {
		return &metav1.Condition{Reason: v1alpha1.ReasonPending, Message: "it has not been looked at yet"}
	}
	if ready.Status != metav1.ConditionTrue {
		return ready
	}
	// The two conditions disagree. Available is the one that was decided on, so it gives the reason.
	if available := meta.FindStatusCondition(fn.Status.Conditions, v1alpha1.ConditionAvailable); available != nil {
		return available
	}
	return &metav1.Condition{Reason: v1alpha1.ReasonPending, Message: "no version of it is running yet"}
}

// underWay reports whether waiting may help, because the function is being built or rolled out.
func underWay(fn *v1alpha1.Function) bool {
	if meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ConditionStalled) {
		return false
	}
	switch fn.Status.Phase {
	case "", v1alpha1.PhasePending, v1alpha1.PhaseBuilding:
		return true
	default:
		return meta.IsStatusConditionTrue(fn.Status.Conditions, v1alpha1.ConditionReconciling)
	}
}

func upstreamHost(key types.NamespacedName, clusterDomain string) string {
	host := key.Name + "." + naming.DeployNamespace(key.Namespace) + ".svc"
	if clusterDomain != "" {
		// The last dot makes the name absolute, so that it costs one look-up and not one per search domain.
		host += "." + clusterDomain + "."
	}
	return net.JoinHostPort(host, strconv.Itoa(naming.FunctionPort))
}

func capacityOf(fn *v1alpha1.Function, usual Concurrency) int {
	perReplica := fn.Spec.Concurrency
	if perReplica <= 0 {
		perReplica = usual(fn.Spec.Runtime)
	}
	return int(fn.Status.Replicas) * int(perReplica)
}

func timeoutOf(fn *v1alpha1.Function) time.Duration {
	seconds := fn.Spec.TimeoutSeconds
	if seconds <= 0 {
		seconds = v1alpha1.DefaultTimeoutSeconds
	}
	return time.Duration(seconds) * time.Second
}

func explain(what, why string) string {
	if why == "" {
		return what
	}
	return what + ": " + why
}
