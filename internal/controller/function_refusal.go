// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/internal/controller/plan"
)

// maxEvents bounds how many events of one Job are read. Kubernetes counts equal ones instead of repeating them.
const maxEvents = 50

// refusal returns why the API server refuses the pod of a Job that has none, or nil.
func (r *FunctionReconciler) refusal(ctx context.Context, job *batchv1.Job, pods []corev1.Pod) (*plan.Fault, error) {
	if !plan.MayBeRefused(job, pods) {
		return nil, nil
	}
	return refusal(ctx, r.APIReader, job, pods)
}

// refusal returns why the API server refuses the next pod of a Job that had these, or nil. A Job says so in events only, which
// are read past the cache, since nobody needs them otherwise.
func refusal(ctx context.Context, direct client.Reader, job *batchv1.Job, pods []corev1.Pod) (*plan.Fault, error) {
	events := &corev1.EventList{}
	err := direct.List(ctx, events, client.InNamespace(job.Namespace), client.Limit(maxEvents), client.MatchingFields{
		"involvedObject.uid": string(job.UID), "reason": plan.EventFailedCreate,
	})
	if err != nil {
		return nil, fmt.Errorf("listing the events of Job %s: %w", client.ObjectKeyFromObject(job), err)
	}
	return plan.Refusal(job, pods, events.Items), nil
}
