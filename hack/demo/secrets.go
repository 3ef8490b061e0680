// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/hack/internal/cluster"
	"github.com/naeel/sless/hack/internal/pki"
	"github.com/naeel/sless/hack/internal/progress"
)

func newSecretsCommand(opts *options) *cobra.Command {
	return &cobra.Command{
		Use:   "secrets [s3] [registry]",
		Short: "Make the logins and the certificate of the demo's object store and registry in the cluster",
		Long: "Make the logins and the certificate of the demo's object store and registry in the cluster: of both, or of those\n" +
			"that are named. What is there and still good is left alone. Pods that were started before must be started again\n" +
			"when something was written: of the demo's object store, and of sless.",
		ValidArgs: []cobra.Completion{partStore, partRegistry},
		Args:      cobra.OnlyValidArgs,
		RunE: func(cmd *cobra.Command, parts []string) error {
			if len(parts) == 0 {
				parts = []string{partStore, partRegistry}
			}
			kubeconfig := ""
			if opts.cluster == clusterLocal {
				kubeconfig = localKubeconfig(opts.checkout)
			}
			_, err := ensureSecrets(cmd.Context(), progress.New(os.Stdout, time.Now), kubeconfig, parts...)
			return err
		},
	}
}

// ensureSecrets makes the Secrets of parts of the demo, and their namespaces. Where all are there it writes nothing.
func ensureSecrets(ctx context.Context, printer *progress.Printer, kubeconfig string, parts ...string) (secrets, error) {
	all := secrets{}
	err := printer.Step("Logins and certificate of the demo", func(progress.Say) (string, error) {
		c, err := newClient(kubeconfig)
		if err != nil {
			return "", err
		}
		written := 0
		for _, part := range parts {
			now, n, err := ensurePart(ctx, c, part)
			if err != nil {
				return "", err
			}
			maps.Copy(all, now)
			written += n
		}
		if written == 0 {
			return "all are there", nil
		}
		return fmt.Sprintf("%d Secrets written", written), nil
	})
	return all, err
}

// ensurePart makes the Secrets of one part, and returns them and how many were written.
func ensurePart(ctx context.Context, c client.Client, part string) (want secrets, written int, err error) {
	have := secrets{}
	for _, key := range secretKeys(part) {
		secret := &corev1.Secret{}
		switch err := c.Get(ctx, key, secret); {
		case apierrors.IsNotFound(err):
			continue
		case err != nil:
			return nil, 0, fmt.Errorf("reading Secret %s: %w", key, err)
		case secret.Labels[labelPartOf] != partOf:
			return nil, 0, fmt.Errorf("there is a Secret %s that is not the demo's; delete it to use the demo's %s", key, part)
		}
		have[key] = secret
	}
	if want, err = planSecrets(part, have, time.Now()); err != nil {
		return nil, 0, err
	}
	for _, key := range secretKeys(part) {
		if !changed(have[key], want[key]) {
			continue
		}
		if err := writeSecret(ctx, c, have[key], want[key]); err != nil {
			return nil, 0, fmt.Errorf("writing Secret %s: %w", key, err)
		}
		written++
	}
	return want, written, nil
}

func writeSecret(ctx context.Context, c client.Client, have, want *corev1.Secret) error {
	if have != nil && have.Type == want.Type {
		want.ResourceVersion = have.ResourceVersion
		return c.Update(ctx, want)
	}
	if have != nil {
		// The type of a Secret stays as it is.
		if err := client.IgnoreNotFound(c.Delete(ctx, have)); err != nil {
			return err
		}
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: want.Namespace}}
	if err := c.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	return c.Create(ctx, want)
}

// writeLogin writes the registry's login to where programs on this machine look for it, as DOCKER_CONFIG names it.
func writeLogin(checkout string, all secrets) (string, error) {
	data, err := dockerConfig(dataOf(all, partsKey("registry-login")), cluster.RegistryHost, cluster.RegistryAddress)
	if err != nil {
		return "", err
	}
	path := cluster.RegistryLogin(checkout)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	return path, pki.WriteFile(path, data, 0o600)
}
