// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"maps"
	"slices"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

// ComponentMirror marks the copies of what a Function refers to.
const ComponentMirror = "mirror"

// SourceKind is the kind of an object that a Function refers to.
type SourceKind string

// Kinds of objects that a Function may refer to.
const (
	SourceSecret    SourceKind = "Secret"
	SourceConfigMap SourceKind = "ConfigMap"
)

// Source is a Secret or a ConfigMap of the user namespace.
type Source struct {
	Kind SourceKind
	Name string
}

// EnvSource returns the object and the key that a variable takes its value from.
func EnvSource(e corev1.EnvVar) (source Source, key string, optional, ok bool) {
	switch from := e.ValueFrom; {
	case from == nil:
		return Source{}, "", false, false
	case from.SecretKeyRef != nil:
		ref := from.SecretKeyRef
		return Source{SourceSecret, ref.Name}, ref.Key, ptr.Deref(ref.Optional, false), true
	case from.ConfigMapKeyRef != nil:
		ref := from.ConfigMapKeyRef
		return Source{SourceConfigMap, ref.Name}, ref.Key, ptr.Deref(ref.Optional, false), true
	}
	return Source{}, "", false, false
}

// EnvFromSource returns the object whose keys become variables.
func EnvFromSource(e corev1.EnvFromSource) (source Source, optional, ok bool) {
	switch {
	case e.SecretRef != nil:
		return Source{SourceSecret, e.SecretRef.Name}, ptr.Deref(e.SecretRef.Optional, false), true
	case e.ConfigMapRef != nil:
		return Source{SourceConfigMap, e.ConfigMapRef.Name}, ptr.Deref(e.ConfigMapRef.Optional, false), true
	}
	return Source{}, false, false
}

// VolumeSource returns the object that a volume shows.
func VolumeSource(v v1alpha1.FunctionVolume) Source {
	if v.Secret != nil {
		return Source{SourceSecret, v.Secret.Name}
	}
	return Source{SourceConfigMap, v.ConfigMap.Name}
}

// MirrorName returns the name of the copy of an object. It holds a hash of the content: other content is another copy, so
// that a change rolls the pods once, and the old version keeps what it was started with.
func MirrorName(fn *v1alpha1.Function, source Source, data map[string][]byte) string {
	parts := []string{string(fn.UID), string(source.Kind), source.Name}
	for _, key := range slices.Sorted(maps.Keys(data)) {
		parts = append(parts, key, string(data[key]))
	}
	return fn.Name + "-" + naming.Hash(parts...)[:mirrorHashLength]
}

// mirrorHashLength keeps the name of a copy within the 63 characters that a Function's longest name leaves room for.
const mirrorHashLength = 10

// Mirror builds the copy of the referenced part of a Secret or ConfigMap in the deploy namespace.
func Mirror(fn *v1alpha1.Function, source Source, data map[string][]byte) client.Object {
	objectMeta := metav1.ObjectMeta{
		Name:        MirrorName(fn, source, data),
		Namespace:   naming.DeployNamespace(fn.Namespace),
		Labels:      OwnerLabels(fn, ComponentMirror),
		Annotations: OwnerAnnotations(fn),
	}
	if source.Kind == SourceSecret {
		return &corev1.Secret{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
			ObjectMeta: objectMeta, Immutable: new(true), Data: data, Type: corev1.SecretTypeOpaque,
		}
	}
	cm := &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: objectMeta, Immutable: new(true),
	}
	for key, value := range data {
		if utf8.Valid(value) {
			setText(cm, key, string(value))
			continue
		}
		if cm.BinaryData == nil {
			cm.BinaryData = map[string][]byte{}
		}
		cm.BinaryData[key] = value
	}
	return cm
}

func setText(cm *corev1.ConfigMap, key, text string) {
	if cm.Data == nil {
		cm.Data = map[string]string{}
	}
	cm.Data[key] = text
}
