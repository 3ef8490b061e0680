// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
)

const userVolumePrefix = "user-"

// containerEnv sorts the user's variables, so that their order in the spec never causes a rollout, and lets them refer to
// the copies. A variable that may be missing, and whose object has no copy, is left out.
func containerEnv(fn *v1alpha1.Function, opt DeploymentOptions) []corev1.EnvVar {
	env := []corev1.EnvVar{{Name: entrypointEnv, Value: opt.Entrypoint}}
	user := slices.Clone(fn.Spec.Env)
	slices.SortFunc(user, func(a, b corev1.EnvVar) int { return strings.Compare(a.Name, b.Name) })
	for _, e := range user {
		source, _, _, ok := EnvSource(e)
		if !ok {
			env = append(env, e)
			continue
		}
		name, copied := opt.Mirrors[source]
		if !copied {
			continue
		}
		e = *e.DeepCopy()
		if source.Kind == SourceSecret {
			e.ValueFrom.SecretKeyRef.Name = name
		} else {
			e.ValueFrom.ConfigMapKeyRef.Name = name
		}
		env = append(env, e)
	}
	return env
}

// containerEnvFrom keeps the user's order, since a later source wins over an earlier one.
func containerEnvFrom(fn *v1alpha1.Function, opt DeploymentOptions) []corev1.EnvFromSource {
	var sources []corev1.EnvFromSource
	for _, e := range fn.Spec.EnvFrom {
		source, _, ok := EnvFromSource(e)
		name, copied := opt.Mirrors[source]
		if !ok || !copied {
			continue
		}
		e = *e.DeepCopy()
		if source.Kind == SourceSecret {
			e.SecretRef.Name = name
		} else {
			e.ConfigMapRef.Name = name
		}
		sources = append(sources, e)
	}
	return sources
}

// userVolumes returns the volumes that the user asks for, and where they are mounted.
func userVolumes(fn *v1alpha1.Function, opt DeploymentOptions) ([]corev1.Volume, []corev1.VolumeMount) {
	var volumes []corev1.Volume
	var mounts []corev1.VolumeMount
	for _, v := range fn.Spec.Volumes {
		source := VolumeSource(v)
		name, copied := opt.Mirrors[source]
		if !copied {
			continue
		}
		volume := corev1.Volume{Name: userVolumePrefix + v.Name}
		if source.Kind == SourceSecret {
			volume.Secret = &corev1.SecretVolumeSource{SecretName: name}
		} else {
			volume.ConfigMap = &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
		}
		volumes = append(volumes, volume)
		mounts = append(mounts, corev1.VolumeMount{Name: volume.Name, MountPath: v.MountPath, ReadOnly: true})
	}
	return volumes, mounts
}
