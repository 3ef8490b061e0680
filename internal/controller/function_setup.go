// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

// functionWorkers is the number of Functions that are worked on at once. Most of a pass is waiting for other servers.
const functionWorkers = 8

// SetupWithManager registers the controller and what it watches.
func (r *FunctionReconciler) SetupWithManager(mgr ctrl.Manager) error {
	if r.memory == nil {
		r.memory = newMemory(r.Config.Cleanup.On())
	}
	scaler, err := newAutoscaler(mgr, r.Config.Scaling)
	if err != nil {
		return err
	}
	r.scaler = scaler
	definition := &metav1.PartialObjectMetadata{}
	definition.SetGroupVersionKind(definitionKind)
	toFunction := handler.EnqueueRequestsFromMapFunc(functionForObject)
	scaler.controller, err = ctrl.NewControllerManagedBy(mgr).
		Named("function").
		For(&v1alpha1.Function{}, builder.WithPredicates(changedByUser())).
		Watches(&v1alpha1.Trigger{}, handler.EnqueueRequestsFromMapFunc(functionForTrigger),
			builder.WithPredicates(triggerConcernsFunction())).
		Watches(&appsv1.Deployment{}, toFunction).
		Watches(&corev1.Service{}, toFunction).
		Watches(&corev1.Pod{}, toFunction).
		WatchesMetadata(definition, handler.EnqueueRequestsFromMapFunc(r.scalingFunctions),
			builder.WithPredicates(isAutoscalerDefinition())).
		WatchesRawSource(source.Kind[client.Object](scaler.endpoints, &discoveryv1.EndpointSlice{},
			handler.EnqueueRequestsFromMapFunc(r.scalingFunctions))).
		WatchesMetadata(&corev1.Secret{}, r.functionsOfSecret()).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.functionsReferringTo(resources.SourceConfigMap))).
		Watches(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.functionsOfDeployNamespace)).
		Watches(&networkingv1.NetworkPolicy{}, handler.EnqueueRequestsFromMapFunc(r.functionsOfDeployNamespace)).
		Watches(&batchv1.Job{}, handler.EnqueueRequestsFromMapFunc(
			functionsForBuild(mgr.GetClient(), r.Config.Git.MaxConcurrent, r.Clock.Now))).
		WithOptions(controllerOptions(functionWorkers)).
		Build(r)
	if err != nil {
		return fmt.Errorf("setting up the Function controller: %w", err)
	}
	return nil
}
