// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/runtimes"
)

func TestValidateFunction(t *testing.T) {
	t.Parallel()
	catalogue, err := runtimes.Load()
	if err != nil {
		t.Fatal(err)
	}
	valid := func() *testutil.FunctionWrapper { return testutil.MakeFunction("f", "n").File("handler.py", "") }
	mounted := func(path string) *v1alpha1.Function {
		fn := valid().Obj()
		fn.Spec.Volumes = []v1alpha1.FunctionVolume{{Name: "v", MountPath: path}}
		return fn
	}
	image := testutil.MakeFunction("f", "n").Runtime("").Obj()
	image.Spec.Source.Image = &v1alpha1.ImageSource{Ref: "registry/image:1"}
	upload := testutil.MakeFunction("f", "n").Entrypoint("not.there").Obj()
	upload.Spec.Source.Upload = &v1alpha1.UploadSource{}
	tests := map[string]struct {
		fn   *v1alpha1.Function
		want []string
		// field must be named by the first problem.
		field string
	}{
		"valid":               {fn: valid().Obj()},
		"valid in a folder":   {fn: valid().File("src/app.py", "").Entrypoint("src/app.main").Obj()},
		"image alone":         {fn: image},
		"files not known yet": {fn: upload},
		"unknown runtime": {fn: valid().Runtime("perl").Obj(), want: []string{v1alpha1.ReasonRuntimeUnknown},
			field: "spec.runtime"},
		"no such file": {fn: valid().Entrypoint("main.handle").Obj(), want: []string{v1alpha1.ReasonEntrypointNotFound},
			field: "spec.entrypoint"},
		"default entrypoint without its file": {fn: testutil.MakeFunction("f", "n").File("x.py", "").Obj(),
			want: []string{v1alpha1.ReasonEntrypointNotFound}, field: "spec.entrypoint"},
		"at the limit": {fn: valid().File("x", strings.Repeat("x", v1alpha1.MaxInlineSourceBytes-len("handler.py")-len("x"))).Obj()},
		"over the limit": {
			fn:   valid().File("x", strings.Repeat("x", v1alpha1.MaxInlineSourceBytes-len("handler.py"))).Obj(),
			want: []string{v1alpha1.ReasonSourceTooLarge}, field: "spec.source.inline.files",
		},
		"mount over the code":   {fn: mounted("/app"), want: []string{v1alpha1.ReasonInvalidSpec}, field: "spec.volumes[0].mountPath"},
		"mount in the code":     {fn: mounted("/app/x"), want: []string{v1alpha1.ReasonInvalidSpec}, field: "spec.volumes[0].mountPath"},
		"mount by a detour":     {fn: mounted("/x/../app"), want: []string{v1alpha1.ReasonInvalidSpec}, field: "spec.volumes[0].mountPath"},
		"mount over the root":   {fn: mounted("//"), want: []string{v1alpha1.ReasonInvalidSpec}, field: "spec.volumes[0].mountPath"},
		"mount over the system": {fn: mounted("/usr"), want: []string{v1alpha1.ReasonInvalidSpec}, field: "spec.volumes[0].mountPath"},
		"mount beside the code": {fn: mounted("/application")},
		"mount over a parent":   {fn: mounted("/opt"), want: []string{v1alpha1.ReasonInvalidSpec}, field: "spec.volumes[0].mountPath"},
		"mount in the parent":   {fn: mounted("/opt/data")},
		"everything wrong at once": {
			fn:   testutil.MakeFunction("f", "n").Runtime("perl").File("x", strings.Repeat("x", 600<<10)).Obj(),
			want: []string{v1alpha1.ReasonSourceTooLarge, v1alpha1.ReasonRuntimeUnknown}, field: "spec.source.inline.files",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			problems := ValidateFunction(tc.fn, catalogue)
			var got []string
			for _, p := range problems {
				got = append(got, p.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("reasons (-want +got):\n%s", diff)
			}
			if len(problems) > 0 && problems[0].Err.Field != tc.field {
				t.Errorf("the first problem names %q, want %q", problems[0].Err.Field, tc.field)
			}
		})
	}
}
