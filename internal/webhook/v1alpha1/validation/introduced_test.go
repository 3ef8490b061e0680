// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
)

// TestIntroduced changes lists and files of Functions that had problems before.
func TestIntroduced(t *testing.T) {
	t.Parallel()
	catalogue := loadCatalogue(t)
	mounts := func(paths ...string) *v1alpha1.Function {
		fn := testutil.MakeFunction("f", "n").File("handler.py", "").Obj()
		for _, path := range paths {
			fn.Spec.Volumes = append(fn.Spec.Volumes, v1alpha1.FunctionVolume{Name: "v", MountPath: path})
		}
		return fn
	}
	files := func(names ...string) *v1alpha1.Function {
		fn := testutil.MakeFunction("f", "n").File("handler.py", "")
		for _, name := range names {
			fn = fn.File(name, "")
		}
		return fn.Obj()
	}
	tests := map[string]struct {
		old, changed             *v1alpha1.Function
		wantIntroduced, wantKept []string
	}{
		"right before and after":      {old: mounts("/data"), changed: mounts("/data", "/more")},
		"wrong as before":             {old: mounts("/data", "/app"), changed: mounts("/data", "/app"), wantKept: []string{"InvalidSpec spec.volumes[1].mountPath"}},
		"wrong as before, moved up":   {old: mounts("/data", "/app"), changed: mounts("/app"), wantKept: []string{"InvalidSpec spec.volumes[0].mountPath"}},
		"wrong as before, moved down": {old: mounts("/app"), changed: mounts("/data", "/app"), wantKept: []string{"InvalidSpec spec.volumes[1].mountPath"}},
		"wrong in another way":        {old: mounts("/app"), changed: mounts("/usr"), wantIntroduced: []string{"InvalidSpec spec.volumes[0].mountPath"}},
		"wrong once more": {
			old: mounts("/usr"), changed: mounts("/usr", "/usr/x", "/usr/y"), wantKept: []string{"InvalidSpec spec.volumes[0].mountPath"},
			wantIntroduced: []string{
				"InvalidSpec spec.volumes[1].mountPath", "InvalidSpec spec.volumes[1].mountPath",
				"InvalidSpec spec.volumes[2].mountPath", "InvalidSpec spec.volumes[2].mountPath",
			},
		},
		"mended":                       {old: mounts("/app"), changed: mounts("/data")},
		"a path, and a new file":       {old: files("../x"), changed: files("../x", "lib.py"), wantKept: []string{"SourceInvalid spec.source.inline.files"}},
		"a path, and another bad path": {old: files("x\\y"), changed: files("../x"), wantIntroduced: []string{"SourceInvalid spec.source.inline.files"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			introduced, kept := ValidateFunctionUpdate(tc.old, tc.changed, catalogue)
			if diff := cmp.Diff(tc.wantIntroduced, reasons(introduced)); diff != "" {
				t.Errorf("introduced (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantKept, reasons(kept)); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
		})
	}
}
