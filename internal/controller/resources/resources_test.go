// SPDX-License-Identifier: Apache-2.0

package resources

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/utils/ptr"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

func list(cpu, memory string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory)}
}

func deploymentOptions() DeploymentOptions {
	return DeploymentOptions{
		Image:        "registry.example.com/sless-shop-cart@sha256:1111",
		SourceDigest: "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
		Entrypoint:   "handler.handle",
		Replicas:     ptr.To[int32](1),
		DefaultResources: corev1.ResourceRequirements{
			Requests: list("50m", "64Mi"),
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("512Mi")},
		},
		MaxBodyBytes: 32 << 20,
	}
}

func buildOptions() BuildOptions {
	return BuildOptions{
		Namespace:     "sless-builds",
		Key:           "00112233445566778899aabbccddeeff",
		ContextKey:    "shop/2222.tar.gz",
		ContextDigest: "sha256:2222",
		Base:          "registry.example.com/sless-runtime-nodejs20@sha256:3333",
		Labels:        map[string]string{"sless.io/namespace": "shop"},
		Target:        "registry.example.com/sless-shop-deps:00112233445566778899aabbccddeeff",
		KanikoImage:   "kaniko:v1.24.0",
		BuilderImage:  "sless:v1",
		StoreEnv:      []corev1.EnvVar{{Name: "S3_ENDPOINT", Value: "s3.example.com"}},
		StoreSecret:   "sless-object-store",
		Resources:     corev1.ResourceRequirements{Limits: list("1", "1Gi")},

		TimeoutSeconds: 900,
	}
}

func TestDeploymentGolden(t *testing.T) {
	t.Parallel()
	plain := testutil.MakeFunction("cart", "shop").UID("uid-1")
	full := testutil.MakeFunction("cart", "shop").UID("uid-1").Env("ZED", "1").Env("ALPHA", "2").Timeout(120).Concurrency(8).
		Annotation(v1alpha1.AnnotationRestartedAt, "2026-01-01T00:00:00Z")
	options := deploymentOptions()
	options.ImagePullSecret = "pull"
	testutil.Golden(t, "deployment_plain", Deployment(plain.Obj(), deploymentOptions()))
	testutil.Golden(t, "deployment_full", Deployment(full.Obj(), options))
	options.WritableRoot = true
	testutil.Golden(t, "deployment_writable_root", Deployment(plain.Obj(), options))
}

func TestOtherGolden(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Obj()
	testutil.Golden(t, "service", Service(fn))
	testutil.Golden(t, "namespace", DeployNamespace("shop"))
	testutil.Golden(t, "pullsecret", PullSecret("shop", []byte(`{"auths":{}}`)))
	testutil.Golden(t, "networkpolicy", NetworkPolicy("shop", "sless-system"))
}

func TestBuildJobGolden(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").UID("uid-1").Obj()
	testutil.Golden(t, "buildjob_plain", BuildJob(fn, buildOptions()))
	full := buildOptions()
	full.InsecureRegistries = []string{"registry.example.com"}
	full.PushSecret, full.CABundleConfigMap = "push", "ca-bundle"
	full.IndexFiles, full.Round = []string{".npmrc"}, 12
	full.Env = map[string]string{"NPM_CONFIG_REGISTRY": "https://npm.example.com"}
	asked := testutil.MakeFunction("cart", "shop").UID("uid-1").Annotation(v1alpha1.AnnotationReconcileAt, "now").Obj()
	testutil.Golden(t, "buildjob_full", BuildJob(asked, full))
	login := buildOptions()
	login.PushSecret, login.ImagePullSecret = "push", "pull"
	login.Authorities = []string{RegistryAuthority, StoreAuthority}
	testutil.Golden(t, "buildjob_login", BuildJob(fn, login))
	private := buildOptions()
	private.Authorities = []string{RegistryAuthority}
	testutil.Golden(t, "buildjob_private_ca", BuildJob(fn, private))
	testutil.Golden(t, "build_authorities", BuildAuthorities(BuildJob(fn, login), map[string]string{"registry.crt": "PEM"}))
	source := buildOptions()
	source.CodeKey, source.CodeDigest = "shop/4444.tar.gz", "sha256:4444"
	testutil.Golden(t, "buildjob_source", BuildJob(fn, source))
}

// The step that runs install scripts must hold nothing that a script could steal.
func TestKanikoStepHoldsNoCredential(t *testing.T) {
	t.Parallel()
	opt := buildOptions()
	opt.PushSecret = "push"
	pod := BuildJob(testutil.MakeFunction("cart", "shop").Obj(), opt).Spec.Template.Spec
	if ptr.Deref(pod.AutomountServiceAccountToken, true) {
		t.Error("the build pod gets a service account token")
	}
	for _, c := range pod.InitContainers {
		if c.Name != BuildKaniko {
			continue
		}
		for _, e := range c.Env {
			if e.ValueFrom != nil {
				t.Errorf("the kaniko step gets %s from a Secret", e.Name)
			}
		}
		for _, m := range c.VolumeMounts {
			if m.Name == baseVolume && !m.ReadOnly {
				t.Error("the kaniko step may change the image that it starts from")
			}
			if m.Name == dockerVolume {
				t.Error("the kaniko step sees the registry's credentials")
			}
		}
	}
}

func TestRevisionFollowsWhatRuns(t *testing.T) {
	t.Parallel()
	revision := func(w *testutil.FunctionWrapper, change func(*DeploymentOptions)) string {
		opt := deploymentOptions()
		if change != nil {
			change(&opt)
		}
		return Deployment(w.Obj(), opt).Labels[v1alpha1.LabelRevision]
	}
	base := func() *testutil.FunctionWrapper {
		return testutil.MakeFunction("cart", "shop").UID("uid-1").Env("A", "1").Env("B", "2")
	}
	tests := map[string]struct {
		fn       *testutil.FunctionWrapper
		change   func(*DeploymentOptions)
		wantSame bool
	}{
		"same":               {fn: base(), wantSame: true},
		"order of env":       {fn: testutil.MakeFunction("cart", "shop").UID("uid-1").Env("B", "2").Env("A", "1"), wantSame: true},
		"replicas":           {fn: base(), change: func(o *DeploymentOptions) { o.Replicas = ptr.To[int32](5) }, wantSame: true},
		"image":              {fn: base(), change: func(o *DeploymentOptions) { o.Image = "other" }},
		"value of env":       {fn: base().Env("C", "3")},
		"timeout":            {fn: base().Timeout(61)},
		"restart annotation": {fn: base().Annotation(v1alpha1.AnnotationRestartedAt, "1")},
		"resources":          {fn: base().Resources(list("1", "1Gi"), nil)},
	}
	want := revision(base(), nil)
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := revision(tc.fn, tc.change); (got == want) != tc.wantSame {
				t.Errorf("revision %s against %s: same = %v, want %v", got, want, got == want, tc.wantSame)
			}
		})
	}
}

func TestContainerEnvLeavesTheSpecAlone(t *testing.T) {
	t.Parallel()
	fn := testutil.MakeFunction("cart", "shop").Env("B", "2").Env("A", "1").Obj()
	Deployment(fn, deploymentOptions())
	names := []string{fn.Spec.Env[0].Name, fn.Spec.Env[1].Name}
	if diff := cmp.Diff([]string{"B", "A"}, names); diff != "" {
		t.Errorf("building a Deployment sorted the Function's own list (-want +got):\n%s", diff)
	}
}

func TestResourcesOf(t *testing.T) {
	t.Parallel()
	memory := func(q string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(q)}
	}
	tests := map[string]struct {
		requests, limits       corev1.ResourceList
		wantRequest, wantLimit string
	}{
		"defaults":                         {wantRequest: "64Mi", wantLimit: "512Mi"},
		"limit below the default request":  {limits: memory("32Mi"), wantRequest: "32Mi", wantLimit: "32Mi"},
		"request above the default limit":  {requests: memory("1Gi"), wantRequest: "1Gi", wantLimit: "1Gi"},
		"both set":                         {requests: memory("100Mi"), limits: memory("200Mi"), wantRequest: "100Mi", wantLimit: "200Mi"},
		"limit above the defaults":         {limits: memory("2Gi"), wantRequest: "64Mi", wantLimit: "2Gi"},
		"request between the two defaults": {requests: memory("128Mi"), wantRequest: "128Mi", wantLimit: "512Mi"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := testutil.MakeFunction("cart", "shop").Resources(tc.requests, tc.limits).Obj()
			got := resourcesOf(fn, deploymentOptions().DefaultResources)
			if got.Requests.Memory().String() != tc.wantRequest || got.Limits.Memory().String() != tc.wantLimit {
				t.Errorf("request %s, limit %s; want %s, %s", got.Requests.Memory(), got.Limits.Memory(), tc.wantRequest, tc.wantLimit)
			}
		})
	}
}

func TestBuildArguments(t *testing.T) {
	t.Parallel()
	got := BuildArguments(map[string]string{"PIP_INDEX_URL": "x", "PIP_CERT": "own"}, true)
	want := []string{"NODE_EXTRA_CA_CERTS", "PIP_CERT", "PIP_INDEX_URL", "SSL_CERT_FILE"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("BuildArguments (-want +got):\n%s", diff)
	}
	opt := buildOptions()
	opt.Env, opt.CABundleConfigMap = map[string]string{"PIP_CERT": "own"}, "ca"
	if args := kanikoArgs(opt); !slices.Contains(args, "--build-arg=PIP_CERT=own") {
		t.Errorf("a variable that the operator set is overwritten: %v", args)
	}
}
