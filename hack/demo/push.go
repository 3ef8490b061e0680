// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/naeel/sless/hack/internal/cluster"
	"github.com/naeel/sless/hack/internal/oci"
	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/internal/image"
)

// pushedImages are those of the node's images that pods of builds and of cron calls run. They are in the registry too, and
// are pulled from there with the login, as on a cluster of many nodes.
func pushedImages() []string { return []string{"sless", "kaniko"} }

// pushImages pushes images to the registry unless it has them, and returns how pods name them: by digest.
func (d *deployment) pushImages(ctx context.Context, made map[string]madeImage, login string) (map[string]string, error) {
	keychain := image.KeychainFromFile(login)
	refs := map[string]string{}
	for _, title := range pushedImages() {
		err := d.printer.Step("Image "+title+" in the registry", func(progress.Say) (said string, err error) {
			refs[title], said, err = pushImage(ctx, made[title], keychain)
			return said, err
		})
		if err != nil {
			return nil, err
		}
	}
	return refs, nil
}

func pushImage(ctx context.Context, made madeImage, keychain authn.Keychain) (ref, said string, err error) {
	img, err := tarball.ImageFromPath(made.Archive, nil)
	if err != nil {
		return "", "", fmt.Errorf("reading %s: %w", made.Archive, err)
	}
	if img, err = asPushed(img); err != nil {
		return "", "", err
	}
	digest, err := img.Digest()
	if err != nil {
		return "", "", err
	}
	local, err := name.NewTag(made.Ref)
	if err != nil {
		return "", "", err
	}
	tag, err := name.NewTag(cluster.RegistryAddress+"/"+made.Name+":"+local.TagStr(), name.Insecure)
	if err != nil {
		return "", "", err
	}
	ref = cluster.RegistryHost + "/" + made.Name + "@" + digest.String()
	there, err := remote.Head(tag, remote.WithContext(ctx), remote.WithAuthFromKeychain(keychain))
	if err == nil && there.Digest == digest {
		return ref, "is there", nil
	}
	_, err = oci.Push(ctx, tag.String(), img, true, keychain)
	return ref, "pushed", err
}

// asPushed gives the image an identity of its own. By identity kubelets remember which images were pulled with a login, and
// then no longer give the same image, loaded onto the node under another name, to pods without one, such as the manager's.
func asPushed(img v1.Image) (v1.Image, error) {
	file, err := img.ConfigFile()
	if err != nil {
		return nil, fmt.Errorf("reading the image's configuration: %w", err)
	}
	file = file.DeepCopy()
	file.Config.Labels = map[string]string{"sless.io/pulled-from": cluster.RegistryHost}
	return mutate.ConfigFile(img, file)
}
