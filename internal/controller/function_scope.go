// SPDX-License-Identifier: Apache-2.0

package controller

import (
	"context"
	"io"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/controller/plan"
	"github.com/naeel/sless/internal/controller/resources"
	"github.com/naeel/sless/internal/image"
	"github.com/naeel/sless/internal/naming"
	"github.com/naeel/sless/runtimes"
)

// functionScope holds everything that one pass over a Function has read and decided. Phases fill it in order; the status
// is computed from it at the end.
type functionScope struct {
	fn  *v1alpha1.Function
	now time.Time

	// What runs now, read before anything is decided.
	deployment *appsv1.Deployment
	pods       []corev1.Pod
	// triggers are all that refer to the Function.
	triggers []v1alpha1.Trigger
	// disabled says why the triggers switch the Function off. It is empty when they do not.
	disabled string
	// autoscaler tells whether KEDA is installed.
	autoscaler bool
	// away is the part of KEDA that does not run, or empty. It is looked for only when KEDA scales the Function.
	away string
	// scaling says who sets the number of replicas.
	scaling plan.ScalingMode
	// scaledObject is the Function's own, or nil.
	scaledObject *unstructured.Unstructured

	// What the phases found, in the order of the way of the code.
	runtime    runtimes.Runtime
	entrypoint string
	code       *codeArchive
	buildBase  string
	image      string
	// sourceRevision is the commit of the code of a git source.
	sourceRevision string
	// observedSource is the git source for which that commit was fetched.
	observedSource string
	// sourceFault is what is wrong with a source whose last good code is used. It ends the pass after all other phases.
	sourceFault error
	// sourceNote adds to what the condition SourceReady says.
	sourceNote outcome
	// lookAgain is when a pass without a fault is to be followed by another, or 0.
	lookAgain time.Duration
	// inQueue are the names of the builds and fetches that the pass has asked for.
	inQueue []string
	// mirrors maps what the Function refers to, to the names of the copies.
	mirrors map[resources.Source]string
	// revision is the revision of the wanted pods, empty until the phases came that far.
	revision string
	// done lists the conditions that a phase found True in this pass, with reason and message.
	done map[string]outcome
}

// codeArchive is the code of a Function in its canonical form.
type codeArchive struct {
	// digest is that of the archive as it is stored, and open reads it.
	digest string
	open   func(ctx context.Context) (io.ReadCloser, error)
	// layer is what comes into the image: the archive, without the files that the image must not carry.
	layer image.LayerSource
	// file returns the content of a file of the code. Of code that is not in the cluster itself it knows only the dependency
	// files, and whether there is the entrypoint's.
	file func(name string) (string, bool)
}

// outcome is why a condition is True.
type outcome struct {
	reason  string
	message string
}

func newFunctionScope(fn *v1alpha1.Function, now time.Time) *functionScope {
	return &functionScope{fn: fn, now: now, done: map[string]outcome{}}
}

func (s *functionScope) deployNamespace() string {
	return naming.DeployNamespace(s.fn.Namespace)
}

// lookAgainAfter asks for another pass after a time, also when this one ends without a fault. 0 asks for nothing; of several
// times the shortest counts.
func (s *functionScope) lookAgainAfter(after time.Duration) {
	if after > 0 && (s.lookAgain == 0 || after < s.lookAgain) {
		s.lookAgain = after
	}
}

// keepInQueue says that builds or fetches are wanted, in case that they wait for a slot.
func (s *functionScope) keepInQueue(jobs ...string) {
	s.inQueue = append(s.inQueue, jobs...)
}

func (s *functionScope) succeed(condition, reason, message string) {
	s.done[condition] = outcome{reason: reason, message: message}
}

// codeDigest returns the digest of the code, or nothing before the source was read.
func (s *functionScope) codeDigest() string {
	if s.code == nil {
		return ""
	}
	return s.code.digest
}

// wantedRevision returns the revision that a Deployment asks for, or nothing when there is none.
func wantedRevision(d *appsv1.Deployment) string {
	if d == nil {
		return ""
	}
	return d.Labels[v1alpha1.LabelRevision]
}
