// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func TestRunGolden(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Env("ALPHA", "2").Timeout(120).Obj()
	plain := testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(1)
	full := testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(7).Event(`{"to":2}`).Timeout(30).Retries(3)
	options := RunOptions{Pod: deploymentOptions(), Event: "the-event"}
	testutil.Golden(t, "run_plain", RunJob(plain.Obj(), fn, options))
	options.Pod.ImagePullSecret = "pull"
	testutil.Golden(t, "run_full", RunJob(full.Obj(), fn, options))
	testutil.Golden(t, "run_event", RunEvent(full.Obj()))
	source := Source{Kind: SourceSecret, Name: "db"}
	testutil.Golden(t, "run_mirror", RunMirror(full.Obj(), fn, source, map[string][]byte{"password": []byte("s3cret")}))
}

func TestRunEventWithoutAnEvent(t *testing.T) {
	t.Parallel()
	event := RunEvent(testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(1).Obj())
	if diff := cmp.Diff(map[string][]byte{"event.json": []byte("null")}, event.Data); diff != "" {
		t.Errorf("the event (-want +got):\n%s", diff)
	}
}

// What a run is given is named by its content, so that an object that exists already is the right one.
func TestRunInputsAreNamedByTheirContent(t *testing.T) {
	t.Parallel()
	job := func(run int64, event string) *v1alpha1.FunctionJob {
		return testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(run).Event(event).Obj()
	}
	names := map[string]bool{}
	for _, j := range []*v1alpha1.FunctionJob{job(1, "1"), job(1, "1"), job(1, "2"), job(2, "1")} {
		names[RunEvent(j).Name] = true
	}
	if len(names) != 3 {
		t.Errorf("three events have the names %v", names)
	}
}

// A run must get no calls, and the Function's controller must not take its pod for one of the Function's.
func TestRunIsNoPodOfTheFunction(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Obj()
	j := testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(1).Obj()
	job := RunJob(j, fn, RunOptions{Pod: deploymentOptions(), Event: "e"})
	if labels.SelectorFromSet(SelectorLabels(fn)).Matches(labels.Set(job.Spec.Template.Labels)) {
		t.Errorf("the Service selects the run: %v", job.Spec.Template.Labels)
	}
	for _, annotations := range []map[string]string{job.Annotations, job.Spec.Template.Annotations} {
		if owner := annotations[v1alpha1.AnnotationOwner]; owner != "" {
			t.Errorf("the run leads to Function %s", owner)
		}
	}
	if !labels.SelectorFromSet(RunLabelsOf("uid-2", 1)).Matches(labels.Set(job.Spec.Template.Labels)) {
		t.Errorf("the FunctionJob does not find its pod: %v", job.Spec.Template.Labels)
	}
}

// Everything else of the pod is that of the Function, whatever is added to it.
func TestRunHasThePodOfTheFunction(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Env("A", "1").Obj()
	j := testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(1).Obj()
	want := podTemplate(fn, deploymentOptions()).Spec
	got := RunJob(j, fn, RunOptions{Pod: deploymentOptions(), Event: "e"}).Spec.Template.Spec
	got.RestartPolicy, got.TerminationGracePeriodSeconds, got.ActiveDeadlineSeconds = "", want.TerminationGracePeriodSeconds, nil
	got.Volumes = got.Volumes[:len(got.Volumes)-1]
	c := &got.Containers[0]
	c.VolumeMounts = c.VolumeMounts[:len(c.VolumeMounts)-1]
	served := want.Containers[0]
	c.Args, c.Ports, c.ReadinessProbe, c.LivenessProbe = served.Args, served.Ports, served.ReadinessProbe, served.LivenessProbe
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the pod of a run differs (-function +run):\n%s", diff)
	}
	if want.Containers[0].Name != ContainerName || want.RestartPolicy == corev1.RestartPolicyNever {
		t.Error("the Function's own template was changed")
	}
}
