// SPDX-License-Identifier: Apache-2.0

package defaulting

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/runtimes"
)

func TestDefaultFunction(t *testing.T) {
	t.Parallel()
	catalogue, err := runtimes.Load()
	if err != nil {
		t.Fatal(err)
	}
	fn := func() *testutil.FunctionWrapper { return testutil.MakeFunction("f", "n").File("handler.py", "") }
	complete := func() *testutil.FunctionWrapper { return fn().Entrypoint("handler.handle") }
	tests := map[string]struct {
		fn, want     *v1alpha1.Function
		wantWarnings []string
	}{
		"entrypoint of the runtime": {fn: fn().Obj(), want: complete().Obj()},
		"entrypoint of the user":    {fn: fn().Entrypoint("app.main").Obj(), want: fn().Entrypoint("app.main").Obj()},
		"runtime unknown":           {fn: fn().Runtime("perl").Obj(), want: fn().Runtime("perl").Obj()},
		"image without a runtime":   {fn: fn().Runtime("").Obj(), want: fn().Runtime("").Obj()},
		"sorted":                    {fn: complete().Env("A", "1").Env("B", "2").Obj(), want: complete().Env("A", "1").Env("B", "2").Obj()},
		"unsorted": {
			fn: complete().Env("b", "3").Env("B", "2").Env("A", "1").Obj(), want: complete().Env("A", "1").Env("B", "2").Env("b", "3").Obj(),
			wantWarnings: []string{SortedEnvWarning},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			warnings := DefaultFunction(tc.fn, catalogue)
			if diff := cmp.Diff(tc.want, tc.fn); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tc.wantWarnings, warnings); diff != "" {
				t.Errorf("warnings (-want +got):\n%s", diff)
			}
			if again := DefaultFunction(tc.fn, catalogue); again != nil {
				t.Errorf("the second time it still warns: %v", again)
			}
		})
	}
}
