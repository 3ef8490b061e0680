// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/resources"
)

// Reference is a Secret or ConfigMap of the user namespace that a Function needs, with the keys that it needs of it.
type Reference struct {
	resources.Source
	// Keys are the needed keys. All are needed when AllKeys is set.
	Keys    []string
	AllKeys bool
	// Required lists the keys without which the function cannot start. The object itself is required when MustExist is set.
	Required  []string
	MustExist bool
}

// References returns what a Function refers to, each object once, sorted.
func References(fn *v1alpha1.Function) []Reference {
	found := map[resources.Source]*Reference{}
	at := func(source resources.Source) *Reference {
		if found[source] == nil {
			found[source] = &Reference{Source: source}
		}
		return found[source]
	}
	for _, e := range fn.Spec.Env {
		if source, key, optional, ok := resources.EnvSource(e); ok {
			at(source).needKey(key, optional)
		}
	}
	for _, e := range fn.Spec.EnvFrom {
		if source, optional, ok := resources.EnvFromSource(e); ok {
			at(source).needAll(optional)
		}
	}
	for _, v := range fn.Spec.Volumes {
		at(resources.VolumeSource(v)).needAll(false)
	}
	references := make([]Reference, 0, len(found))
	for _, r := range found {
		slices.Sort(r.Keys)
		r.Keys = slices.Compact(r.Keys)
		references = append(references, *r)
	}
	slices.SortFunc(references, func(a, b Reference) int {
		return cmp.Or(strings.Compare(string(a.Kind), string(b.Kind)), strings.Compare(a.Name, b.Name))
	})
	return references
}

func (r *Reference) needKey(key string, optional bool) {
	r.Keys = append(r.Keys, key)
	if !optional {
		r.Required = append(r.Required, key)
		r.MustExist = true
	}
}

func (r *Reference) needAll(optional bool) {
	r.AllKeys = true
	r.MustExist = r.MustExist || !optional
}

// Pick returns the referenced part of an object's data, or what is missing in words for the user. data is nil when the
// object does not exist.
func (r *Reference) Pick(namespace string, data map[string][]byte) (map[string][]byte, error) {
	if data == nil {
		if r.MustExist {
			return nil, fmt.Errorf("%s %s does not exist in namespace %s", r.Kind, r.Name, namespace)
		}
		return nil, nil
	}
	for _, key := range r.Required {
		if _, ok := data[key]; !ok {
			return nil, fmt.Errorf("%s %s in namespace %s has no key %s", r.Kind, r.Name, namespace, key)
		}
	}
	picked := map[string][]byte{}
	for key, value := range data {
		if r.AllKeys || slices.Contains(r.Keys, key) {
			picked[key] = value
		}
	}
	return picked, nil
}

// SecretData returns the data of a Secret, never nil.
func SecretData(secret *corev1.Secret) map[string][]byte {
	if secret.Data == nil {
		return map[string][]byte{}
	}
	return secret.Data
}

// ConfigMapData returns the text and the binary data of a ConfigMap together, never nil.
func ConfigMapData(cm *corev1.ConfigMap) map[string][]byte {
	data := make(map[string][]byte, len(cm.Data)+len(cm.BinaryData))
	for key, text := range cm.Data {
		data[key] = []byte(text)
	}
	maps.Copy(data, cm.BinaryData)
	return data
}
