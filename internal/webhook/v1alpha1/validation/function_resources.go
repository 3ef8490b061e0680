// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// leastMemory is a limit below which no process starts. It is there for "512m", which is half a byte.
var leastMemory = resource.MustParse("1Mi")

var computeResources = []string{
	string(corev1.ResourceCPU), string(corev1.ResourceMemory), string(corev1.ResourceEphemeralStorage),
}

// validateResources checks what the API server would refuse in a pod, and limits that no program can live with. What is
// not set comes from the operator's configuration and is fitted to what is.
func validateResources(set corev1.ResourceRequirements, path *field.Path) []Problem {
	var problems []Problem
	if len(set.Claims) > 0 {
		problems = append(problems, invalidSpec(field.Forbidden(path.Child("claims"), "is not supported; remove it")))
	}
	for _, list := range []struct {
		name       string
		quantities corev1.ResourceList
	}{{"requests", set.Requests}, {"limits", set.Limits}} {
		for _, name := range sortedNames(list.quantities) {
			at := path.Child(list.name).Key(string(name))
			if err := checkQuantity(name, list.quantities[name], at); err != nil {
				problems = append(problems, invalidSpec(err))
			}
		}
	}
	for _, name := range sortedNames(set.Requests) {
		request := set.Requests[name]
		limit, ok := set.Limits[name]
		at := path.Child("requests").Key(string(name))
		switch {
		case ok && request.Cmp(limit) > 0:
			problems = append(problems, invalidSpec(field.Invalid(at, request.String(),
				"is more than the limit of "+limit.String()+"; lower it or raise limits."+string(name))))
		case isExtended(name) && (!ok || request.Cmp(limit) != 0):
			problems = append(problems, invalidSpec(field.Invalid(at, request.String(),
				"must equal limits."+string(name)+", since such a resource cannot be shared out twice")))
		}
	}
	if memory, ok := set.Limits[corev1.ResourceMemory]; ok && memory.Sign() >= 0 && memory.Cmp(leastMemory) < 0 {
		problems = append(problems, invalidSpec(field.Invalid(path.Child("limits").Key("memory"), memory.String(),
			"is too little for any program; write 512Mi for mebibytes (m means a thousandth)")))
	}
	return problems
}

func checkQuantity(name corev1.ResourceName, quantity resource.Quantity, path *field.Path) *field.Error {
	switch {
	case !slices.Contains(computeResources, string(name)) && !isExtended(name):
		return field.NotSupported(path, string(name), computeResources)
	case quantity.Sign() < 0:
		return field.Invalid(path, quantity.String(), "must be 0 or more")
	case isExtended(name) && quantity.MilliValue()%1000 != 0:
		return field.Invalid(path, quantity.String(), "must be a whole number")
	}
	return nil
}

// isExtended tells whether a resource is one that some vendor added to the nodes, such as nvidia.com/gpu.
func isExtended(name corev1.ResourceName) bool {
	domain, _, ok := strings.Cut(string(name), "/")
	return ok && domain != "kubernetes.io" && !strings.HasSuffix(domain, ".kubernetes.io")
}

func sortedNames(list corev1.ResourceList) []corev1.ResourceName {
	return slices.Sorted(maps.Keys(list))
}
