// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/naeel/sless/hack/internal/cluster"
	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

func rootCommand() *cobra.Command {
	root := &cobra.Command{
		Use:           "cluster",
		Short:         "Run a real single-node Kubernetes on this machine",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(upCommand(), downCommand(), statusCommand(), loadCommand(), toolsCommand(), envtestCommand())
	return root
}

func upCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "up",
		Short: "Bring the cluster up; on a running cluster start what is missing",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := here(os.Stdout)
			if err != nil {
				return err
			}
			return c.Up(cmd.Context())
		},
	}
}

func downCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster and remove everything of it, data included",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := here(os.Stdout)
			if err != nil {
				return err
			}
			return c.Down(cmd.Context())
		},
	}
}

func statusCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "status",
		Short: "Show which parts run; ends with 1 when not all of them do",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := here(os.Stderr)
			if err != nil {
				return err
			}
			up, err := c.Status(cmd.Context(), os.Stdout)
			if err == nil && !up {
				err = errors.New("the cluster is not up")
			}
			return err
		},
	}
}

func loadCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "load FILE...",
		Short: "Import image files into the node, without those it has",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, files []string) error {
			c, err := here(os.Stdout)
			if err != nil {
				return err
			}
			return c.Out.Step("Images", func(say progress.Say) (string, error) {
				loaded, err := c.Load(cmd.Context(), say, files...)
				return fmt.Sprintf("%d loaded, %d present", loaded, len(files)-loaded), err
			})
		},
	}
}

func toolsCommand() *cobra.Command {
	return &cobra.Command{
		Use:       "tools GROUP...",
		Short:     "Build groups of programs into the cache and print their folders",
		Long:      "Build groups of programs into the cache. Groups: " + strings.Join(toolcache.Names(), ", "),
		Args:      cobra.MinimumNArgs(1),
		ValidArgs: toolcache.Names(),
		RunE: func(cmd *cobra.Command, names []string) error {
			c, err := here(os.Stderr)
			if err != nil {
				return err
			}
			for _, name := range names {
				dir, err := c.BuildTools(cmd.Context(), name)
				if err != nil {
					return err
				}
				if _, err := fmt.Println(dir); err != nil {
					return err
				}
			}
			return nil
		},
	}
}

func envtestCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "envtest-assets",
		Short: "Print a folder with kube-apiserver, etcd, and kubectl for " + cluster.EnvAssets,
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := here(os.Stderr)
			if err != nil {
				return err
			}
			dir, err := c.EnvtestAssets(cmd.Context())
			if err != nil {
				return err
			}
			_, err = fmt.Println(dir)
			return err
		},
	}
}
