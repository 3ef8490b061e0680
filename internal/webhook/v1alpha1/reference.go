// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	logf "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/naeel/sless/api/v1alpha1"
)

// findTimeout bounds one search for a Function. It is for a warning only, which must hold nobody up.
const findTimeout = time.Second

// functionFinder looks for the Functions that other objects name.
type functionFinder struct {
	cached client.Reader
	live   client.Reader
}

// warnMissing warns when a Function does not exist. It is no mistake: what is applied together comes in any order.
func (f *functionFinder) warnMissing(ctx context.Context, namespace, name string) admission.Warnings {
	key := client.ObjectKey{Namespace: namespace, Name: name}
	err := find(ctx, f.cached, key)
	if err != nil {
		// The cache lags behind when both were applied in one go, and is empty for a moment when the manager starts.
		err = find(ctx, f.live, key)
	}
	if apierrors.IsNotFound(err) {
		return admission.Warnings{fmt.Sprintf(
			"spec.functionRef.name: there is no Function %s in namespace %s yet; nothing is called until there is", name, namespace)}
	}
	if err != nil {
		logf.FromContext(ctx).Error(err, "Failed to look for the Function that is referred to")
	}
	return nil
}

func find(ctx context.Context, reader client.Reader, key client.ObjectKey) error {
	ctx, cancel := context.WithTimeout(ctx, findTimeout)
	defer cancel()
	return reader.Get(ctx, key, &v1alpha1.Function{})
}
