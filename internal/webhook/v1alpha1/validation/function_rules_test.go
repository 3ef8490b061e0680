// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/runtimes"
)

func loadCatalogue(t *testing.T) Catalogue {
	t.Helper()
	catalogue, err := runtimes.Load()
	if err != nil {
		t.Fatal(err)
	}
	return catalogue
}

// TestFunctionRules changes one thing of a right Function at a time.
func TestFunctionRules(t *testing.T) {
	t.Parallel()
	catalogue := loadCatalogue(t)
	type spec = *v1alpha1.FunctionSpec
	variable := func(e corev1.EnvVar) func(spec) { return func(s spec) { s.Env = []corev1.EnvVar{e} } }
	from := func(source corev1.EnvVarSource) func(spec) {
		return variable(corev1.EnvVar{Name: "A", ValueFrom: &source})
	}
	secretKey := func(name, key string) *corev1.SecretKeySelector {
		return &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}
	}
	configMapKey := func(name, key string) *corev1.ConfigMapKeySelector {
		return &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: name}, Key: key}
	}
	field := func(path string) corev1.EnvVarSource {
		return corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: path}}
	}
	secretRef := func(name string) *corev1.SecretEnvSource {
		return &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}
	}
	envFrom := func(e corev1.EnvFromSource) func(spec) { return func(s spec) { s.EnvFrom = []corev1.EnvFromSource{e} } }
	amounts := func(pairs ...string) corev1.ResourceList {
		list := corev1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			list[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return list
	}
	resources := func(requests, limits corev1.ResourceList) func(spec) {
		return func(s spec) { s.Resources = corev1.ResourceRequirements{Requests: requests, Limits: limits} }
	}
	mounts := func(paths ...string) func(spec) {
		return func(s spec) {
			for _, p := range paths {
				s.Volumes = append(s.Volumes, v1alpha1.FunctionVolume{Name: "v", MountPath: p})
			}
		}
	}
	git := func(g v1alpha1.GitSource) func(spec) {
		return func(s spec) { s.Source = v1alpha1.FunctionSource{Git: &g} }
	}
	image := func(ref string) func(spec) {
		return func(s spec) { s.Source = v1alpha1.FunctionSource{Image: &v1alpha1.ImageSource{Ref: ref}} }
	}
	file := func(name string) func(spec) { return func(s spec) { s.Source.Inline.Files[name] = "" } }
	tests := map[string]struct {
		change   func(spec)
		want     []string
		wantText string
	}{
		"nothing": {change: func(spec) {}},
		"variable": {
			change: variable(corev1.EnvVar{Name: "GREETING_2", Value: "x"}),
		},
		"variable with a space": {
			change: variable(corev1.EnvVar{Name: "A B"}), want: []string{"InvalidSpec spec.env[A B].name"}, wantText: "such as GREETING",
		},
		"variable that begins with a digit": {
			change: variable(corev1.EnvVar{Name: "1A"}), want: []string{"InvalidSpec spec.env[1A].name"},
		},
		"variable without a name": {change: variable(corev1.EnvVar{}), want: []string{"InvalidSpec spec.env[0].name"}},
		"reserved variable": {
			change: variable(corev1.EnvVar{Name: "SLESS_X"}), want: []string{"InvalidSpec spec.env[SLESS_X].name"}, wantText: "reserved",
		},
		"variable of 128 KiB": {
			change: variable(corev1.EnvVar{Name: "A", Value: strings.Repeat("x", 128<<10-3)}),
		},
		"variable over 128 KiB": {
			change: variable(corev1.EnvVar{Name: "A", Value: strings.Repeat("x", 128<<10-2)}),
			want:   []string{"InvalidSpec spec.env[A].value"}, wantText: "spec.volumes",
		},
		"value and source": {
			change: variable(corev1.EnvVar{Name: "A", Value: "x", ValueFrom: &corev1.EnvVarSource{SecretKeyRef: secretKey("s", "k")}}),
			want:   []string{"InvalidSpec spec.env[A].valueFrom"}, wantText: "beside value",
		},
		"no source":     {change: from(corev1.EnvVarSource{}), want: []string{"InvalidSpec spec.env[A].valueFrom"}},
		"secret":        {change: from(corev1.EnvVarSource{SecretKeyRef: secretKey("s", "k.x-y_z")})},
		"config map":    {change: from(corev1.EnvVarSource{ConfigMapKeyRef: configMapKey("s", "k")})},
		"secret's name": {change: from(corev1.EnvVarSource{SecretKeyRef: secretKey("", "k")}), want: []string{"InvalidSpec spec.env[A].valueFrom.secretKeyRef.name"}},
		"config map's key": {
			change: from(corev1.EnvVarSource{ConfigMapKeyRef: configMapKey("s", "a/b")}),
			want:   []string{"InvalidSpec spec.env[A].valueFrom.configMapKeyRef.key"},
		},
		"two sources": {
			change: from(corev1.EnvVarSource{SecretKeyRef: secretKey("s", "k"), ConfigMapKeyRef: configMapKey("s", "k")}),
			want:   []string{"InvalidSpec spec.env[A].valueFrom"}, wantText: "exactly one",
		},
		"file in a volume": {
			change: from(corev1.EnvVarSource{FileKeyRef: &corev1.FileKeySelector{}}),
			want:   []string{"InvalidSpec spec.env[A].valueFrom.fileKeyRef"}, wantText: "not supported",
		},
		"pod's name":  {change: from(field("metadata.name"))},
		"pod's label": {change: from(field("metadata.labels['sless.io/function']"))},
		"pod's phase": {change: from(field("status.phase")), want: []string{"InvalidSpec spec.env[A].valueFrom.fieldRef.fieldPath"}},
		"memory limit": {
			change: from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "limits.memory"}}),
		},
		"memory without limits": {
			change: from(corev1.EnvVarSource{ResourceFieldRef: &corev1.ResourceFieldSelector{Resource: "memory"}}),
			want:   []string{"InvalidSpec spec.env[A].valueFrom.resourceFieldRef.resource"},
		},
		"whole secret": {change: envFrom(corev1.EnvFromSource{Prefix: "DB_", SecretRef: secretRef("db")})},
		"whole secret as reserved names": {
			change: envFrom(corev1.EnvFromSource{Prefix: "SLESS_", SecretRef: secretRef("db")}),
			want:   []string{"InvalidSpec spec.envFrom[0].prefix"}, wantText: "reserved",
		},
		"whole secret without a name": {
			change: envFrom(corev1.EnvFromSource{SecretRef: secretRef("")}), want: []string{"InvalidSpec spec.envFrom[0].secretRef.name"},
		},
		"whole config map with a wrong name": {
			change: envFrom(corev1.EnvFromSource{ConfigMapRef: &corev1.ConfigMapEnvSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: "A"}}}),
			want: []string{"InvalidSpec spec.envFrom[0].configMapRef.name"},
		},
		"whole nothing": {change: envFrom(corev1.EnvFromSource{}), want: []string{"InvalidSpec spec.envFrom[0]"}},

		"resources":     {change: resources(amounts("cpu", "100m", "memory", "64Mi"), amounts("memory", "64Mi", "ephemeral-storage", "1Gi"))},
		"request alone": {change: resources(amounts("memory", "4Gi"), nil)},
		"request over the limit": {
			change: resources(amounts("memory", "128Mi"), amounts("memory", "64Mi")),
			want:   []string{"InvalidSpec spec.resources.requests[memory]"}, wantText: "limit of 64Mi",
		},
		"negative": {change: resources(amounts("cpu", "-1"), nil), want: []string{"InvalidSpec spec.resources.requests[cpu]"}},
		"memory in thousandths": {
			change: resources(nil, amounts("memory", "512m")), want: []string{"InvalidSpec spec.resources.limits[memory]"}, wantText: "512Mi",
		},
		"unknown resource": {
			change: resources(nil, amounts("mem", "1Gi")), want: []string{"InvalidSpec spec.resources.limits[mem]"}, wantText: `"memory"`,
		},
		"graphics card":         {change: resources(amounts("nvidia.com/gpu", "1"), amounts("nvidia.com/gpu", "1"))},
		"half a graphics card":  {change: resources(nil, amounts("nvidia.com/gpu", "500m")), want: []string{"InvalidSpec spec.resources.limits[nvidia.com/gpu]"}},
		"graphics card, shared": {change: resources(amounts("nvidia.com/gpu", "1"), nil), want: []string{"InvalidSpec spec.resources.requests[nvidia.com/gpu]"}},
		"claims": {
			change: func(s spec) { s.Resources.Claims = []corev1.ResourceClaim{{Name: "x"}} },
			want:   []string{"InvalidSpec spec.resources.claims"},
		},

		"mounts beside each other": {change: mounts("/etc-a", "/etc-ab")},
		"mount twice":              {change: mounts("/a", "/a"), want: []string{"InvalidSpec spec.volumes[1].mountPath"}},
		"mount in a mount":         {change: mounts("/a/b", "/a"), want: []string{"InvalidSpec spec.volumes[0].mountPath"}, wantText: "another volume"},

		"file out of the source": {change: file("../x"), want: []string{"SourceInvalid spec.source.inline.files"}, wantText: "../x"},
		"file twice":             {change: file("HANDLER.py"), want: []string{"SourceInvalid spec.source.inline.files"}, wantText: "letter case"},
		"git":                    {change: git(v1alpha1.GitSource{URL: "https://git.example.com/a.git", Revision: "v1.0", Path: "src/x"})},
		"git user":               {change: git(v1alpha1.GitSource{URL: "ssh://git@git.example.com/a.git"})},
		"git password": {
			change: git(v1alpha1.GitSource{URL: "https://u:hunter2@git.example.com/a.git"}),
			want:   []string{"SourceInvalid spec.source.git.url"}, wantText: "secretName",
		},
		"git option as a revision": {
			change: git(v1alpha1.GitSource{URL: "https://x/y", Revision: "--upload-pack=x"}),
			want:   []string{"SourceInvalid spec.source.git.revision"},
		},
		"git path out of the repository": {
			change: git(v1alpha1.GitSource{URL: "https://x/y", Path: "a/../../b"}), want: []string{"SourceInvalid spec.source.git.path"},
		},
		"git absolute path": {
			change: git(v1alpha1.GitSource{URL: "https://x/y", Path: "/a"}), want: []string{"SourceInvalid spec.source.git.path"},
		},
		"image":            {change: image("registry.example.com:5000/team/image@sha256:" + strings.Repeat("a", 64))},
		"image impossible": {change: image("https://registry/image"), want: []string{"SourceInvalid spec.source.image.ref"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := testutil.MakeFunction("f", "n").File("handler.py", "").Obj()
			tc.change(&fn.Spec)
			problems := ValidateFunction(fn, catalogue)
			if diff := cmp.Diff(tc.want, reasons(problems)); diff != "" {
				t.Fatalf("problems (-want +got):\n%s", diff)
			}
			for _, p := range problems {
				if !strings.Contains(p.Err.Error(), tc.wantText) {
					t.Errorf("%q does not say %q", p.Err, tc.wantText)
				}
				if strings.Contains(p.Err.Error(), "hunter2") {
					t.Errorf("%q tells a password", p.Err)
				}
			}
		})
	}
}

func TestValidateFunctionUpdate(t *testing.T) {
	t.Parallel()
	catalogue := loadCatalogue(t)
	broken := testutil.MakeFunction("f", "n").File("handler.py", "").Runtime("perl").Obj()
	worse := broken.DeepCopy()
	worse.Spec.Env = []corev1.EnvVar{{Name: "A B"}}
	right := testutil.MakeFunction("f", "n").File("handler.py", "").Obj()
	tests := map[string]struct {
		old, changed         *v1alpha1.Function
		wantNew, wantFromOld []string
	}{
		"still broken":  {old: broken, changed: broken, wantFromOld: []string{"RuntimeUnknown spec.runtime"}},
		"mended":        {old: broken, changed: right},
		"newly broken":  {old: right, changed: broken, wantNew: []string{"RuntimeUnknown spec.runtime"}},
		"more mistakes": {old: broken, changed: worse, wantNew: []string{"InvalidSpec spec.env[A B].name"}, wantFromOld: []string{"RuntimeUnknown spec.runtime"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			introduced, kept := ValidateFunctionUpdate(tc.old, tc.changed, catalogue)
			if diff := cmp.Diff(tc.wantNew, reasons(introduced)); diff != "" {
				t.Errorf("new problems (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantFromOld, reasons(kept)); diff != "" {
				t.Errorf("old problems (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFunctionWarnings(t *testing.T) {
	t.Parallel()
	catalogue := loadCatalogue(t)
	day := func(text string) time.Time {
		at, err := time.Parse(time.DateOnly, text)
		if err != nil {
			t.Fatal(err)
		}
		return at
	}
	tests := map[string]struct {
		runtime string
		now     time.Time
		want    []string
	}{
		"last day": {runtime: "nodejs20", now: day("2026-04-30")},
		"the day after": {runtime: "nodejs20", now: day("2026-05-01"), want: []string{
			"spec.runtime: nodejs20 is past its end of life (2026-04-30) and gets no security fixes; move to nodejs24"}},
		"nothing newer": {runtime: "python3.11", now: day("2099-01-01"), want: []string{
			"spec.runtime: python3.11 is past its end of life (2027-10-31) and gets no security fixes; no newer one is in the catalogue yet"}},
		"image": {now: day("2099-01-01")},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := FunctionWarnings(testutil.MakeFunction("f", "n").Runtime(tc.runtime).Obj(), catalogue, tc.now)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
		})
	}
}

func TestReferenceWarnings(t *testing.T) {
	t.Parallel()
	const warning = "spec.env[B_URL].value: $(C_HOST) stays as it is, because C_HOST comes after B_URL when sorted by name; " +
		"rename one of them so that it comes before"
	for value, want := range map[string][]string{
		"plain":                       nil,
		"http://$(A_HOST)":            nil, // comes before
		"$(B_URL) $(ELSEWHERE)":       nil, // may be one of envFrom
		"$$(C_HOST) $C_HOST $(C_HOST": nil, // no references
		"http://$(C_HOST)/$(C_HOST)":  {warning},
		"$$$(C_HOST)":                 {warning},
	} {
		fn := testutil.MakeFunction("f", "n").Obj()
		fn.Spec.Env = []corev1.EnvVar{{Name: "B_URL", Value: value}, {Name: "C_HOST", Value: "c"}, {Name: "A_HOST", Value: "a"}}
		if diff := cmp.Diff(want, FunctionWarnings(fn, loadCatalogue(t), time.Time{})); diff != "" {
			t.Errorf("%s: warnings (-want +got):\n%s", value, diff)
		}
	}
}
