// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naeel/sless/internal/image"
)

type pushOptions struct {
	registryOptions

	tar, target, base string
	labels            []string
}

func (p *Program) pushCommand() *cobra.Command {
	opts := pushOptions{}
	command := &cobra.Command{
		Use:   "push --tar FILE --target REPO:TAG",
		Short: "Push the image in a tar file and write its digest to the termination log",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.push(cmd.Context(), opts)
		},
	}
	flags := command.Flags()
	flags.StringVar(&opts.tar, "tar", "", "file with the image, in the format of docker save")
	flags.StringVar(&opts.target, "target", "", "repository and tag to push to")
	flags.StringVar(&opts.base, "base", "",
		"image that this one was built on; its layers are not sent when it is in the same registry")
	flags.StringArrayVar(&opts.labels, "label", nil, "NAME=VALUE to set on the image; repeatable")
	opts.bind(flags)
	for _, name := range []string{"tar", "target"} {
		// The flag exists, so there is no error.
		_ = command.MarkFlagRequired(name)
	}
	return command
}

func (p *Program) push(ctx context.Context, opts pushOptions) error {
	registry, err := opts.open()
	if err != nil {
		return &stepError{ReasonPushFailed, err}
	}
	labels, err := pairs("label", opts.labels)
	if err != nil {
		return &stepError{ReasonPushFailed, err}
	}
	var digest string
	err = p.retry(ctx, image.IsUnavailable, func(ctx context.Context) (err error) {
		digest, err = registry.PushTarball(ctx, image.PushRequest{
			Path: opts.tar, Target: opts.target, Base: opts.base, Labels: labels,
		})
		return err
	})
	switch {
	case image.IsUnavailable(err):
		return &stepError{ReasonRegistryUnavailable, err}
	case err != nil:
		return &stepError{ReasonPushFailed, image.Explain(err)}
	}
	p.printf("Pushed %s@%s", opts.target, digest)
	p.terminate(digest)
	return nil
}

// pairs reads the values of a flag that are of the form NAME=VALUE.
func pairs(flag string, values []string) (map[string]string, error) {
	read := make(map[string]string, len(values))
	for _, value := range values {
		name, rest, ok := strings.Cut(value, "=")
		if !ok || name == "" {
			return nil, fmt.Errorf("--%s is %q, expected NAME=VALUE", flag, value)
		}
		read[name] = rest
	}
	return read, nil
}
