// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"slices"

	"github.com/google/go-containerregistry/pkg/name"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/naeel/sless/internal/config"
	"github.com/naeel/sless/internal/naming"
)

// Keys of the ConfigMap that BuildAuthorities builds.
const (
	RegistryAuthority = config.RegistryAuthority
	StoreAuthority    = config.ObjectStoreAuthority
)

const (
	// storeAuthorityVariable tells a step which authority the object store has.
	storeAuthorityVariable = "S3_CA_FILE"
	authoritiesVolume      = "authorities"
	authoritiesDir         = "/sless-authorities"
	baseVolume             = "base"
	baseDir                = "/base"
)

// BuildAuthorities builds the ConfigMap with the certificate authorities of the registry and of the object store, for one
// build. It goes with the Job.
func BuildAuthorities(job *batchv1.Job, data map[string]string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: goesWith(job),
		Data:       data,
	}
}

// goesWith names an object as the Job that it is for, and lets it go with that. It does not hold the Job's deletion up: some
// clusters ask for a right on the Job's finalizers for that.
func goesWith(job *batchv1.Job) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: job.Name, Namespace: job.Namespace, Labels: job.Labels, Annotations: job.Annotations,
		OwnerReferences: []metav1.OwnerReference{{
			APIVersion: batchv1.SchemeGroupVersion.String(), Kind: "Job", Name: job.Name, UID: job.UID, Controller: new(true),
		}},
	}
}

// pullStep brings the image that the build starts from into the pod. It has the credentials that kaniko must not have, since
// kaniko runs code of users.
func pullStep(opt BuildOptions) corev1.Container {
	args := append([]string{"pull", "--image=" + opt.Base, "--dest=" + baseDir}, registryArgs(opt)...)
	c := builderStep(BuildPull, opt, args, corev1.VolumeMount{Name: baseVolume, MountPath: baseDir})
	withRegistry(&c, opt)
	return c
}

// baseArgs tells kaniko where the image is that the build starts from: in the pod, when a step has brought it, or in the
// registry. kaniko looks for images in a folder only as part of its cache, of which nothing else is used.
func baseArgs(opt BuildOptions) []string {
	if opt.PushSecret != "" {
		return []string{
			"--cache=true", "--cache-dir=" + baseDir, "--cache-repo=oci:" + outputDir + "/cache", "--cache-run-layers=false",
			"--cache-copy-layers=false", "--no-push-cache",
		}
	}
	var args []string
	for _, host := range opt.InsecureRegistries {
		args = append(args, "--insecure-registry="+host)
	}
	path, ok := opt.authority(RegistryAuthority)
	base, err := name.ParseReference(opt.Base)
	if ok && err == nil {
		args = append(args, "--registry-certificate="+base.Context().RegistryStr()+"="+path)
	}
	return args
}

// registryArgs are the arguments of our own steps that speak to a registry.
func registryArgs(opt BuildOptions) []string {
	var args []string
	for _, host := range opt.InsecureRegistries {
		args = append(args, "--insecure-registry="+host)
	}
	if path, ok := opt.authority(RegistryAuthority); ok {
		args = append(args, "--registry-ca-file="+path)
	}
	return args
}

// withRegistry gives a step of our own what registryArgs and the login refer to.
func withRegistry(c *corev1.Container, opt BuildOptions) {
	if opt.PushSecret != "" {
		c.Env = append(c.Env, corev1.EnvVar{Name: "DOCKER_CONFIG", Value: dockerDir})
		c.VolumeMounts = append(c.VolumeMounts, corev1.VolumeMount{Name: dockerVolume, MountPath: dockerDir, ReadOnly: true})
	}
	if _, ok := opt.authority(RegistryAuthority); ok {
		c.VolumeMounts = append(c.VolumeMounts, authoritiesMount())
	}
}

// authority returns the file with an authority, if there is one.
func (o *BuildOptions) authority(key string) (string, bool) {
	return authoritiesDir + "/" + key, slices.Contains(o.Authorities, key)
}

func authoritiesMount() corev1.VolumeMount {
	return corev1.VolumeMount{Name: authoritiesVolume, MountPath: authoritiesDir, ReadOnly: true}
}

// authoritiesVolumeOf is the ConfigMap that BuildAuthorities builds for a Job.
func authoritiesVolumeOf(job string) corev1.Volume {
	return corev1.Volume{Name: authoritiesVolume, VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: job}},
	}}
}

func registryVolumes(opt BuildOptions) []corev1.Volume {
	var volumes []corev1.Volume
	if len(opt.Authorities) > 0 {
		volumes = append(volumes, authoritiesVolumeOf(naming.BuildJob(opt.Key)))
	}
	if opt.PushSecret == "" {
		return volumes
	}
	return append(volumes,
		corev1.Volume{Name: dockerVolume, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{
				SecretName: opt.PushSecret,
				Items:      []corev1.KeyToPath{{Key: corev1.DockerConfigJsonKey, Path: "config.json"}},
			},
		}},
		corev1.Volume{Name: baseVolume, VolumeSource: corev1.VolumeSource{
			EmptyDir: &corev1.EmptyDirVolumeSource{SizeLimit: new(resource.MustParse("4Gi"))},
		}})
}
