// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
)

// leaveQueues removes the builds and fetches of a Function that wait for a slot and that the pass did not come to ask for:
// the code or the source is another one by now, or something else has to be mended first. Nobody would start them, and those
// behind them would wait for ever. err is what ended the pass; when it is that the API server failed, the pass tells nothing.
func (r *FunctionReconciler) leaveQueues(ctx context.Context, s *functionScope, err error) error {
	if _, told := errors.AsType[*phaseError](err); err != nil && !told {
		return nil
	}
	jobs := &batchv1.JobList{}
	if err := r.List(ctx, jobs, client.InNamespace(r.Config.Builds.Namespace), client.MatchingLabels{
		v1alpha1.LabelManagedBy: v1alpha1.ManagedBySless, v1alpha1.LabelOwnerUID: string(s.fn.UID),
	}); err != nil {
		return fmt.Errorf("listing the Function's builds and fetches: %w", err)
	}
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if !ptr.Deref(job.Spec.Suspend, false) || !job.DeletionTimestamp.IsZero() || slices.Contains(s.inQueue, job.Name) {
			continue
		}
		if err := r.removeJob(ctx, job); err != nil {
			return err
		}
	}
	return nil
}
