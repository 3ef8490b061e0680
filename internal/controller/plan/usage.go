// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	corev1 "k8s.io/api/core/v1"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/internal/objectstore"
)

// Usage is what is needed of the object store and the registry.
type Usage struct {
	objects map[string]bool // by key
	images  map[string]bool // by ImageName
	// repositories are the images in each of them, by the same names.
	repositories map[string][]string
}

// NewUsage returns the usage of nothing.
func NewUsage() *Usage {
	return &Usage{objects: map[string]bool{}, images: map[string]bool{}, repositories: map[string][]string{}}
}

// AddFunction adds what a Function needs: its code and its image, those of its history, and the images that these were
// made of, since going back must need no build.
func (u *Usage) AddFunction(fn *v1alpha1.Function) {
	code := func(digest string) {
		if digest != "" {
			u.objects[objectstore.CodeKey(fn.Namespace, digest)] = true
		}
	}
	if upload := fn.Spec.Source.Upload; upload != nil {
		code(upload.SHA256)
	}
	if ready := fn.Spec.Source.Image; ready != nil {
		u.addImage(ready.Ref)
	}
	code(fn.Status.SourceDigest)
	u.addImage(fn.Status.Image)
	for _, record := range fn.Status.History {
		code(record.SourceDigest)
		u.addImage(record.Image)
		u.addImage(record.Base)
	}
}

// AddPod adds the images of a pod, or of what makes pods.
func (u *Usage) AddPod(pod *corev1.PodSpec) {
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for _, c := range containers {
			u.addImage(c.Image)
		}
	}
}

// AddBuild adds what the steps of a build name in their arguments: the build context, the image to start from and the one
// to push.
func (u *Usage) AddBuild(pod *corev1.PodSpec) {
	u.AddPod(pod)
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for _, c := range containers {
			for _, argument := range slices.Concat(c.Command, c.Args) {
				u.addArgument(argument)
			}
		}
	}
}

func (u *Usage) addArgument(argument string) {
	if _, value, ok := strings.Cut(argument, "="); ok {
		argument = value
	}
	if IsCodeKey(argument) {
		u.objects[argument] = true
	} else if strings.Contains(argument, naming.RepositoryPrefix) {
		u.addImage(argument)
	}
}

func (u *Usage) addImage(ref string) {
	if ref == "" || u.images[ImageName(ref)] {
		return
	}
	u.images[ImageName(ref)] = true
	if parsed, err := name.ParseReference(ref); err == nil {
		repository := parsed.Context().Name()
		u.repositories[repository] = append(u.repositories[repository], parsed.Name())
	}
}

// ImagesIn returns the names of the images that are needed of a repository ("host/path"), sorted.
func (u *Usage) ImagesIn(repository string) []string {
	if parsed, err := name.NewRepository(repository); err == nil {
		repository = parsed.Name()
	}
	return slices.Sorted(slices.Values(u.repositories[repository]))
}

// NeedsObject tells whether the object with the key is needed. What was said about code in a review is needed as long as the
// code.
func (u *Usage) NeedsObject(key string) bool {
	if code, ok := strings.CutSuffix(key, objectstore.ReviewSuffix); ok {
		key = code + objectstore.CodeSuffix
	}
	return u.objects[key]
}

// NeedsImage tells whether an image is needed under any of its names. An image that is removed is gone under all of them.
func (u *Usage) NeedsImage(image RegistryImage) bool {
	return slices.ContainsFunc(image.Names(), func(ref string) bool { return u.images[ImageName(ref)] })
}

// RegistryImage is an image in a repository.
type RegistryImage struct {
	// Repository is "host/path".
	Repository string
	// Digest is "sha256:" and 64 hex digits.
	Digest string
	// Tags are all tags that lead to it.
	Tags []string
}

// Reference returns the image by digest.
func (i *RegistryImage) Reference() string { return i.Repository + "@" + i.Digest }

// Names returns all references to the image.
func (i *RegistryImage) Names() []string {
	names := []string{i.Reference()}
	for _, tag := range i.Tags {
		names = append(names, i.Repository+":"+tag)
	}
	return names
}

var (
	codeKey    = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[0-9a-f]{64}\.tar\.gz$`)
	contentTag = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// IsCodeKey tells whether a key is of the form of objectstore.CodeKey.
func IsCodeKey(key string) bool { return codeKey.MatchString(key) }

// IsReviewKey tells whether a key is of the form of objectstore.ReviewKey.
func IsReviewKey(key string) bool {
	code, ok := strings.CutSuffix(key, objectstore.ReviewSuffix)
	return ok && IsCodeKey(code+objectstore.CodeSuffix)
}

// MadeBySless tells whether all tags of an image are content hashes, as sless gives them. A tag that somebody else has set
// keeps the image.
func (i *RegistryImage) MadeBySless() bool {
	return !slices.ContainsFunc(i.Tags, func(tag string) bool { return !contentTag.MatchString(tag) })
}

// ImageName brings a reference into one form; docker.io has more than one.
func ImageName(ref string) string {
	parsed, err := name.ParseReference(ref)
	if err != nil {
		return ref
	}
	return parsed.Name()
}
