// SPDX-License-Identifier: Apache-2.0

// Package v1alpha1 answers the API server's questions about objects that are created or changed (docs/admission.md). What
// it says is decided by the pure packages validation and defaulting, which the reconcilers use too.
package v1alpha1

import (
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/webhook/v1alpha1/validation"
)

// Paths at which the webhooks are served; config/webhook/manifests.yaml names them too.
const (
	MutateFunctionPath      = "/mutate-sless-io-v1alpha1-function"
	ValidateFunctionPath    = "/validate-sless-io-v1alpha1-function"
	ValidateTriggerPath     = "/validate-sless-io-v1alpha1-trigger"
	ValidateFunctionJobPath = "/validate-sless-io-v1alpha1-functionjob"
)

// ReviewTimeout bounds the review of code. It is below the timeout of the webhook in config/webhook/manifests.yaml, so that
// the answer of a review that took too long still reaches the user.
const ReviewTimeout = 17 * time.Second

// Review is what a reviewer says of code. An empty Denied lets it pass.
type Review struct {
	Denied   string
	Warnings []string
	// Digest is that of code which was refused for what it does. It is told by an event.
	Digest string
}

// Reviewer judges the inline code of a Function. On a dry run it changes nothing outside of it. An error
// means that no judgement was possible, and refuses the Function.
type Reviewer interface {
	Review(ctx context.Context, fn *v1alpha1.Function, dryRun bool) (Review, error)
}

// Dependencies are what the webhooks work with.
type Dependencies struct {
	Catalogue validation.Catalogue
	Clock     clock.PassiveClock
	// Reviewer is nil when no review is configured.
	Reviewer Reviewer
}

// Setup registers all webhooks with the manager's webhook server.
func Setup(mgr ctrl.Manager, deps Dependencies) error {
	functions := &functionFinder{cached: mgr.GetClient(), live: mgr.GetAPIReader()}
	functionValidator := &FunctionValidator{
		Catalogue: deps.Catalogue, Clock: deps.Clock, Reviewer: deps.Reviewer,
		refusals: newRefusalTeller(mgr.GetEventRecorder("sless"), deps.Clock),
	}
	mgr.GetWebhookServer().Register(MutateFunctionPath, functionDefaulting(mgr.GetScheme(), deps.Catalogue))
	return errors.Join(
		ctrl.NewWebhookManagedBy(mgr, &v1alpha1.Function{}).WithValidatorCustomPath(ValidateFunctionPath).
			WithValidator(functionValidator).Complete(),
		ctrl.NewWebhookManagedBy(mgr, &v1alpha1.Trigger{}).WithValidatorCustomPath(ValidateTriggerPath).
			WithValidator(&TriggerValidator{functions: functions}).Complete(),
		ctrl.NewWebhookManagedBy(mgr, &v1alpha1.FunctionJob{}).WithValidatorCustomPath(ValidateFunctionJobPath).
			WithValidator(&FunctionJobValidator{functions: functions}).Complete(),
	)
}

// refuse returns the error that names every problem, in the form that the API server gives its own, or nil.
func refuse(kind, name string, problems []validation.Problem) error {
	if len(problems) == 0 {
		return nil
	}
	errs := make(field.ErrorList, 0, len(problems))
	for _, p := range problems {
		errs = append(errs, p.Err)
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: v1alpha1.GroupVersion.Group, Kind: kind}, name, errs)
}

// warnKept tells of problems that the object had before this change, which does not have to answer for them.
func warnKept(kept []validation.Problem) admission.Warnings {
	var warnings admission.Warnings
	for _, p := range kept {
		warnings = append(warnings, p.Err.Error()+" (it was so before, and still has to be mended)")
	}
	return warnings
}
