// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"

	"github.com/naeel/sless/hack/internal/oci"
	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/internal/image"
)

// waitPoll is how far apart two questions to a registry are that does not answer yet.
const waitPoll = 500 * time.Millisecond

// pusher pushes images to one registry.
type pusher struct {
	registry  string
	plainHTTP bool
	login     authn.Keychain
	progress  *progress.Printer
}

// newPusher waits until the registry answers: in the demo its pod has just been started.
func newPusher(ctx context.Context, p *progress.Printer, opt runtimeOptions) (*pusher, error) {
	out := &pusher{registry: opt.registry, plainHTTP: opt.plainHTTP, login: authn.DefaultKeychain, progress: p}
	if opt.login != "" {
		out.login = image.KeychainFromFile(opt.login)
	}
	tag, err := out.tag("ping", "ping")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, opt.wait)
	defer cancel()
	return out, p.Step("Registry "+opt.registry, func(progress.Say) (string, error) {
		for {
			_, err := transport.Ping(ctx, tag.Registry, http.DefaultTransport)
			if err == nil {
				return "answers", nil
			}
			select {
			case <-ctx.Done():
				return "", fmt.Errorf("it does not answer: %w", err)
			case <-time.After(waitPoll):
			}
		}
	})
}

func (p *pusher) tag(repository, tag string) (name.Tag, error) {
	opts := []name.Option{name.StrictValidation}
	if p.plainHTTP {
		opts = append(opts, name.Insecure)
	}
	return name.NewTag(p.registry+"/"+repository+":"+tag, opts...)
}

// push pushes the image unless the registry has it under this tag.
func (p *pusher) push(ctx context.Context, source *runtimeSource, img v1.Image) (result, error) {
	tag, err := p.tag(source.image, source.version)
	if err != nil {
		return result{}, err
	}
	digest, err := img.Digest()
	if err != nil {
		return result{}, err
	}
	r := result{Name: source.name, Ref: tag.String(), Digest: digest.String()}
	if r.Bytes, err = compressedSize(img); err != nil {
		return result{}, err
	}
	err = p.progress.Step("Image "+tag.String(), func(progress.Say) (string, error) {
		there, err := remote.Head(tag, remote.WithContext(ctx), remote.WithAuthFromKeychain(p.login))
		if err == nil && there.Digest == digest {
			return "the registry has it", nil
		}
		if err != nil && !isNotFound(err) {
			return "", fmt.Errorf("asking the registry: %w", err)
		}
		if _, err := oci.Push(ctx, tag.String(), img, p.plainHTTP, p.login); err != nil {
			return "", err
		}
		r.Pushed = true
		return fmt.Sprintf("pushed, %.1f MB", megabytes(r.Bytes)), nil
	})
	return r, err
}

func isNotFound(err error) bool {
	var answer *transport.Error
	return errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound
}

// compressedSize adds up what a node must fetch that has nothing of the image.
func compressedSize(img v1.Image) (int64, error) {
	manifest, err := img.Manifest()
	if err != nil {
		return 0, err
	}
	total := manifest.Config.Size
	for _, l := range manifest.Layers {
		total += l.Size
	}
	return total, nil
}
