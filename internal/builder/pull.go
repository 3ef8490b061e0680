// SPDX-License-Identifier: Apache-2.0

package builder

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/naeel/sless/internal/image"
)

// ReasonPullFailed means that an image could not be read and trying again will not help.
const ReasonPullFailed = "PullFailed"

type pullOptions struct {
	registryOptions

	image, dest string
}

func (p *Program) pullCommand() *cobra.Command {
	opts := pullOptions{}
	command := &cobra.Command{
		Use:   "pull --image REPO@DIGEST --dest FOLDER",
		Short: "Save an image to a file that has its digest as its name",
		Long: "Save an image to a file that has its digest as its name.\n\n" +
			"kaniko finds it there, and so needs no credentials for the registry.",
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return p.pull(cmd.Context(), opts)
		},
	}
	flags := command.Flags()
	flags.StringVar(&opts.image, "image", "", "image by digest")
	flags.StringVar(&opts.dest, "dest", "", "folder of the file")
	opts.bind(flags)
	for _, name := range []string{"image", "dest"} {
		// The flag exists, so there is no error.
		_ = command.MarkFlagRequired(name)
	}
	return command
}

func (p *Program) pull(ctx context.Context, opts pullOptions) error {
	registry, err := opts.open()
	if err != nil {
		return &stepError{ReasonPullFailed, err}
	}
	var path string
	err = p.retry(ctx, image.IsUnavailable, func(ctx context.Context) (err error) {
		path, err = registry.Save(ctx, opts.image, opts.dest)
		return err
	})
	switch {
	case image.IsUnavailable(err):
		return &stepError{ReasonRegistryUnavailable, err}
	case err != nil:
		return &stepError{ReasonPullFailed, image.Explain(err)}
	}
	p.printf("Saved %s to %s", opts.image, path)
	return nil
}
