// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/naeel/sless/internal/objectstore"
)

const (
	// ownerObject holds the name of the installation that cleans up in the bucket. It is the key of no code.
	ownerObject = "sless-cleanup-owner"
	maxOwner    = 256
)

// ownsBucket tells whether this installation is the one that cleans up in the bucket. Two installations with one bucket
// would remove each other's code, since each knows the Functions of its own cluster only; so the first one marks the bucket,
// and any other leaves it, and the registry, alone. The pass that has set the mark does nothing else: if two set it at once,
// the next pass of each sees whose it is.
func (c *cleaner) ownsBucket(ctx context.Context) (bool, error) {
	if c.installation == "" {
		// The cluster's first namespace is never made anew. The cache does not hold it.
		system := &metav1.PartialObjectMetadata{}
		system.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
		if err := c.reader.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
			return false, fmt.Errorf("reading the name of the cluster: %w", err)
		}
		c.installation = string(system.UID)
	}
	owner, err := c.bucketOwner(ctx)
	if errors.Is(err, objectstore.ErrNotFound) {
		if c.config.Cleanup.DryRun {
			return true, nil
		}
		content := strings.NewReader(c.installation)
		return false, c.store.Put(ctx, ownerObject, content, content.Size(), nil)
	}
	if err != nil {
		return false, err
	}
	blocked := 0.0
	if owner != c.installation {
		blocked = 1
		log.FromContext(ctx).Info("Another installation cleans up in this bucket, so this one removes nothing; "+
			"remove the object if there is no other one", "bucket", c.config.ObjectStore.Bucket, "object", ownerObject)
	}
	c.metrics.blocked.WithLabelValues(cleanupObjects).Set(blocked)
	return owner == c.installation, nil
}

func (c *cleaner) bucketOwner(ctx context.Context) (owner string, err error) {
	content, _, err := c.store.Get(ctx, ownerObject)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, content.Close()) }()
	data, err := io.ReadAll(io.LimitReader(content, maxOwner))
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", ownerObject, err)
	}
	return strings.TrimSpace(string(data)), nil
}
