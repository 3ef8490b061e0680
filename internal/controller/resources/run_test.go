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
	pod := deploymentOptions()
	testutil.Golden(t, "run_plain", RunJob(plain.Obj(), fn, pod))
	pod.ImagePullSecret = "pull"
	testutil.Golden(t, "run_full", RunJob(full.Obj(), fn, pod))
	testutil.Golden(t, "run_event", RunEvent(full.Obj(), "uid-1"))
	source := Source{Kind: SourceSecret, Name: "db"}
	testutil.Golden(t, "run_mirror", RunMirror(full.Obj(), fn, source, map[string][]byte{"password": []byte("s3cret")}))
}

func TestRunEventWithoutAnEvent(t *testing.T) {
	t.Parallel()
	event := RunEvent(testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(1).Obj(), "uid-1")
	if diff := cmp.Diff(map[string][]byte{"event.json": []byte("null")}, event.Data); diff != "" {
		t.Errorf("the event (-want +got):\n%s", diff)
	}
}

// An event of another name would let a run begin twice; a copy of the same name would be an old one.
func TestNamesOfWhatARunIsGiven(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").Obj()
	names := map[string]bool{}
	for _, run := range []int64{1, 2} {
		for _, content := range []string{"1", "2"} {
			j := testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(run).Event(content).Obj()
			event := RunEvent(j, "uid-1").Name
			names[event] = true
			names[RunMirror(j, fn, Source{Kind: SourceSecret, Name: "db"}, map[string][]byte{"a": []byte(content)}).GetName()] = true
			volumes := RunJob(j, fn, deploymentOptions()).Spec.Template.Spec.Volumes
			if got := volumes[len(volumes)-1].Secret.SecretName; got != event {
				t.Errorf("the pod reads event %s, which is made as %s", got, event)
			}
			if got := RunEventName(j, run); got != event {
				t.Errorf("event %s is looked for as %s", event, got)
			}
		}
	}
	if len(names) != 2+4 {
		t.Errorf("two runs of two contents have %v, want one event for each run and four copies", names)
	}
}

// A run must get no calls, and the Function's controller must not take its pod for one of the Function's.
func TestRunIsNoPodOfTheFunction(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Obj()
	j := testutil.MakeFunctionJob("migrate", "shop", "cart").UID("uid-2").Run(1).Obj()
	job := RunJob(j, fn, deploymentOptions())
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
	got := RunJob(j, fn, deploymentOptions()).Spec.Template.Spec
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
