// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naeel/sless/api/v1alpha1"
)

// routeConditions are those with which a Gateway says whether it serves an HTTPRoute.
var routeConditions = []string{"Accepted", "ResolvedRefs"}

// RouteFault says why no Gateway serves an HTTPRoute, or returns nil when one does. The API of Gateways lets their
// controllers write that into the route's status.
func RouteFault(route *unstructured.Unstructured) *Fault {
	parents, _, _ := unstructured.NestedSlice(route.Object, "status", "parents") // anything else says nothing
	var refused *Fault
	for _, parent := range parents {
		fields, ok := parent.(map[string]any)
		if !ok {
			continue
		}
		switch accepted, why := parentVerdict(fields, route.GetGeneration()); {
		case accepted:
			return nil
		case why != "" && refused == nil:
			refused = &Fault{Reason: v1alpha1.ReasonHostNotRouted, User: true, Message: truncate(fmt.Sprintf(
				"Gateway %s does not serve the host: %s; the operator of the cluster has to mend that", parentName(fields, route), why))}
		}
	}
	if refused != nil {
		return refused
	}
	var names []string
	refs, _, _ := unstructured.NestedSlice(route.Object, "spec", "parentRefs")
	for _, ref := range refs {
		if fields, ok := ref.(map[string]any); ok {
			names = append(names, refName(fields, route))
		}
	}
	return &Fault{Reason: v1alpha1.ReasonPending, Message: fmt.Sprintf("Gateway %s has not accepted the host yet", strings.Join(names, ", "))}
}

// parentVerdict tells whether a Gateway has accepted this generation of a route, and if it has refused it, why.
func parentVerdict(parent map[string]any, generation int64) (accepted bool, refused string) {
	conditions, _, _ := unstructured.NestedSlice(parent, "conditions")
	yes := 0
	for _, condition := range conditions {
		fields, ok := condition.(map[string]any)
		kind, _, _ := unstructured.NestedString(fields, "type")
		observed, told, _ := unstructured.NestedInt64(fields, "observedGeneration")
		if !ok || !slices.Contains(routeConditions, kind) || (told && observed < generation) {
			continue
		}
		status, _, _ := unstructured.NestedString(fields, "status")
		switch status {
		case "True":
			yes++
		case "False":
			reason, _, _ := unstructured.NestedString(fields, "reason")
			message, _, _ := unstructured.NestedString(fields, "message")
			return false, strings.TrimSuffix(cmp.Or(reason, kind)+": "+cmp.Or(message, "it gives no reason"), ".")
		}
	}
	return yes == len(routeConditions), ""
}

func parentName(parent map[string]any, route *unstructured.Unstructured) string {
	ref, _, _ := unstructured.NestedMap(parent, "parentRef")
	return refName(ref, route)
}

func refName(ref map[string]any, route *unstructured.Unstructured) string {
	namespace, _, _ := unstructured.NestedString(ref, "namespace")
	name, _, _ := unstructured.NestedString(ref, "name")
	return cmp.Or(namespace, route.GetNamespace()) + "/" + name
}
