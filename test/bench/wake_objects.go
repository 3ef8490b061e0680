// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/internal/naming"
)

const (
	wakeLabel  = "sless-bench/wake"
	scalerAddr = "keda-add-ons-http-external-scaler.keda:9090"
)

// wakeDeployment copies the Deployment of a Function, at zero replicas, so that KEDA alone says how many pods it has. The
// patch is a strategic merge patch of it as JSON, and may be empty.
func wakeDeployment(of *appsv1.Deployment, name string, patch []byte) (*appsv1.Deployment, error) {
	labels := map[string]string{wakeLabel: name}
	d := &appsv1.Deployment{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "Deployment"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: of.Namespace, Labels: labels},
		Spec:       *of.Spec.DeepCopy(),
	}
	d.Spec.Replicas = ptr.To[int32](0)
	d.Spec.Selector = &metav1.LabelSelector{MatchLabels: labels}
	d.Spec.Template.ObjectMeta = metav1.ObjectMeta{Labels: labels}
	// The pods are asked to go after every run; nothing is in flight then.
	d.Spec.Template.Spec.TerminationGracePeriodSeconds = ptr.To[int64](1)
	if len(patch) == 0 {
		return d, nil
	}
	data, err := json.Marshal(d)
	if err != nil {
		return nil, err
	}
	if data, err = strategicpatch.StrategicMergePatch(data, patch, appsv1.Deployment{}); err != nil {
		return nil, fmt.Errorf("patching the Deployment: %w", err)
	}
	patched := &appsv1.Deployment{}
	if err := json.Unmarshal(data, patched); err != nil {
		return nil, fmt.Errorf("the patched Deployment: %w", err)
	}
	return patched, nil
}

func wakeService(d *appsv1.Deployment) *corev1.Service {
	return &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: metav1.ObjectMeta{Name: d.Name, Namespace: d.Namespace, Labels: d.Labels},
		Spec: corev1.ServiceSpec{
			Selector: d.Spec.Selector.MatchLabels,
			Ports:    []corev1.ServicePort{{Port: naming.FunctionPort, TargetPort: intstr.FromInt32(naming.FunctionPort)}},
		},
	}
}

// wakeHost is the virtual host of a route.
func wakeHost(d *appsv1.Deployment) string {
	return d.Name + "." + d.Namespace + ".fn.sless.internal"
}

func wakeRoute(d *appsv1.Deployment) *unstructured.Unstructured {
	return unstructuredOf("http.keda.sh/v1beta1", "InterceptorRoute", d, map[string]any{
		"target":        map[string]any{"service": d.Name, "port": int64(naming.FunctionPort)},
		"rules":         []any{map[string]any{"hosts": []any{wakeHost(d)}}},
		"scalingMetric": map[string]any{"concurrency": map[string]any{"targetValue": int64(100)}},
		"timeouts":      map[string]any{"readiness": "30s", "request": "60s"},
	})
}

// wakeScaledObject has no rate of requests, so that the function is idle as soon as nothing is in flight, and polls rarely,
// so that it is the stream that wakes.
func wakeScaledObject(d *appsv1.Deployment) *unstructured.Unstructured {
	return unstructuredOf("keda.sh/v1alpha1", "ScaledObject", d, map[string]any{
		"scaleTargetRef":  map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "name": d.Name},
		"minReplicaCount": int64(0), "maxReplicaCount": int64(1), "pollingInterval": int64(60), "cooldownPeriod": int64(60),
		"triggers": []any{map[string]any{
			"type":     "external-push",
			"metadata": map[string]any{"scalerAddress": scalerAddr, "interceptorRoute": d.Name},
		}},
	})
}

func unstructuredOf(apiVersion, kind string, d *appsv1.Deployment, spec map[string]any) *unstructured.Unstructured {
	labels := map[string]any{}
	for name, value := range d.Labels {
		labels[name] = value
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": apiVersion, "kind": kind,
		"metadata": map[string]any{"name": d.Name, "namespace": d.Namespace, "labels": labels},
		"spec":     spec,
	}}
}
