// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/naeel/sless/api/v1alpha1"
)

// maxEnvBytes is what Linux takes for NAME=value and the byte after it. With more the container cannot be started.
const maxEnvBytes = 128 << 10

// What a variable may tell of its pod: the fields and resources that the API server accepts in a pod.
var (
	podFields = []string{
		"metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
		"status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
	}
	podField     = regexp.MustCompile(`^metadata\.(labels|annotations)\['[^']+'\]$`)
	podResources = []string{
		"limits.cpu", "limits.memory", "limits.ephemeral-storage",
		"requests.cpu", "requests.memory", "requests.ephemeral-storage",
	}
)

// validateEnv checks what the API server would refuse in a pod. The schema refuses names that come twice.
func validateEnv(env []corev1.EnvVar, path *field.Path) []Problem {
	var problems []Problem
	for i, e := range env {
		// By name: the list was sorted on its way here, so that its numbers are not those of the user's file.
		at := path.Key(e.Name)
		if e.Name == "" {
			at = path.Index(i)
		}
		if detail := checkEnvName(e.Name); detail != "" {
			problems = append(problems, invalidSpec(field.Invalid(at.Child("name"), e.Name, detail)))
		}
		if size := len(e.Name) + len("=") + len(e.Value) + 1; size > maxEnvBytes {
			problems = append(problems, invalidSpec(field.Invalid(at.Child("value"), fmt.Sprintf("%d bytes", len(e.Value)),
				"name and value may hold 128 KiB together; mount a ConfigMap or Secret with spec.volumes instead")))
		}
		if err := checkEnvSource(e, at); err != nil {
			problems = append(problems, invalidSpec(err))
		}
	}
	return problems
}

func checkEnvName(name string) string {
	switch {
	case strings.HasPrefix(name, v1alpha1.ReservedEnvPrefix):
		return "names that begin with " + v1alpha1.ReservedEnvPrefix + " are reserved"
	case len(validation.IsEnvVarName(name)) > 0:
		return "must consist of letters, digits, '_', '-' and '.', and not begin with a digit; such as GREETING"
	}
	return ""
}

// checkEnvSource checks valueFrom: one source at most, and one that a function's pod can have.
func checkEnvSource(e corev1.EnvVar, path *field.Path) *field.Error {
	from, at := e.ValueFrom, path.Child("valueFrom")
	if from == nil {
		return nil
	}
	if e.Value != "" {
		return field.Invalid(at, "", "may not be set beside value; remove one of them")
	}
	set := 0
	for _, isSet := range []bool{
		from.FieldRef != nil, from.ResourceFieldRef != nil, from.ConfigMapKeyRef != nil, from.SecretKeyRef != nil, from.FileKeyRef != nil,
	} {
		if isSet {
			set++
		}
	}
	switch {
	case set != 1:
		return field.Invalid(at, "", "set exactly one of secretKeyRef, configMapKeyRef, fieldRef, resourceFieldRef")
	case from.FileKeyRef != nil:
		return field.Forbidden(at.Child("fileKeyRef"), "is not supported; use secretKeyRef or configMapKeyRef")
	case from.SecretKeyRef != nil:
		return checkKeyRef(from.SecretKeyRef.Name, from.SecretKeyRef.Key, at.Child("secretKeyRef"))
	case from.ConfigMapKeyRef != nil:
		return checkKeyRef(from.ConfigMapKeyRef.Name, from.ConfigMapKeyRef.Key, at.Child("configMapKeyRef"))
	case from.FieldRef != nil && !slices.Contains(podFields, from.FieldRef.FieldPath) && !podField.MatchString(from.FieldRef.FieldPath):
		return field.NotSupported(at.Child("fieldRef", "fieldPath"), from.FieldRef.FieldPath, podFields)
	case from.ResourceFieldRef != nil && !slices.Contains(podResources, from.ResourceFieldRef.Resource):
		return field.NotSupported(at.Child("resourceFieldRef", "resource"), from.ResourceFieldRef.Resource, podResources)
	}
	return nil
}

func checkKeyRef(name, key string, path *field.Path) *field.Error {
	if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
		return field.Invalid(path.Child("name"), name, "must be the name of an object in this namespace")
	}
	if errs := validation.IsConfigMapKey(key); len(errs) > 0 {
		return field.Invalid(path.Child("key"), key, "must be a key: letters, digits, '-', '_' and '.'")
	}
	return nil
}

// validateEnvFrom checks that each entry names one object, and that its prefix makes no reserved or impossible names.
func validateEnvFrom(sources []corev1.EnvFromSource, path *field.Path) []Problem {
	var problems []Problem
	for i, e := range sources {
		at := path.Index(i)
		if (e.SecretRef != nil) == (e.ConfigMapRef != nil) {
			problems = append(problems, invalidSpec(field.Invalid(at, "", "set exactly one of secretRef and configMapRef")))
			continue
		}
		name, child := "", "secretRef"
		if e.SecretRef != nil {
			name = e.SecretRef.Name
		} else {
			name, child = e.ConfigMapRef.Name, "configMapRef"
		}
		if errs := validation.IsDNS1123Subdomain(name); len(errs) > 0 {
			problems = append(problems, invalidSpec(field.Invalid(at.Child(child, "name"), name,
				"must be the name of an object in this namespace")))
		}
		if e.Prefix == "" {
			continue
		}
		if detail := checkEnvName(e.Prefix); detail != "" {
			problems = append(problems, invalidSpec(field.Invalid(at.Child("prefix"), e.Prefix, detail)))
		}
	}
	return problems
}
