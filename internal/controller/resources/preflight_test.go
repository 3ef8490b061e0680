// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func TestPreflightJobGolden(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Env("ALPHA", "2").
		Annotation(v1alpha1.AnnotationReconcileAt, "now").Annotation(v1alpha1.AnnotationRestartedAt, "then").Obj()
	options := deploymentOptions()
	options.ImagePullSecret = "pull"
	testutil.Golden(t, "preflight", PreflightJob(fn, options, "00112233445566778899aabbccddeeff"))
}

// What is proven must be what runs later.
func TestPreflightPodIsTheDeploymentsPod(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Env("ALPHA", "2").Timeout(120).Obj()
	fn.Spec.Volumes = []v1alpha1.FunctionVolume{{Name: "v", MountPath: "/v", Secret: &v1alpha1.SecretReference{Name: "s"}}}
	options := deploymentOptions()
	options.Mirrors = map[Source]string{{Kind: SourceSecret, Name: "s"}: "copy"}
	deployment := Deployment(fn, options)
	pod := PreflightJob(fn, options, "r").Spec.Template
	served, tried := deployment.Spec.Template.Spec, pod.Spec
	if diff := cmp.Diff(append([]string{"check"}, served.Containers[0].Args[1:]...), tried.Containers[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	for _, spec := range []*corev1.PodSpec{&served, &tried} {
		spec.RestartPolicy, spec.TerminationGracePeriodSeconds = "", nil
		c := &spec.Containers[0]
		c.Args, c.Ports, c.ReadinessProbe, c.LivenessProbe = nil, nil, nil, nil
	}
	if diff := cmp.Diff(served, tried); diff != "" {
		t.Errorf("pods (-served +tried):\n%s", diff)
	}
	if labels.SelectorFromSet(SelectorLabels(fn)).Matches(labels.Set(pod.Labels)) {
		t.Error("the Service would send calls to the preflight")
	}
}
