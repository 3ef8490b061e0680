// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"strings"
	"testing"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/testutil"
	"github.com/naeel/sless/runtimes"
)

func TestValidateGit(t *testing.T) {
	t.Parallel()
	catalogue, err := runtimes.Load()
	if err != nil {
		t.Fatal(err)
	}
	const good = "https://git.example.com/team/shop.git"
	tests := map[string]struct {
		source v1alpha1.GitSource
		want   []string
	}{
		"https":                {source: v1alpha1.GitSource{URL: good}},
		"http with a port":     {source: v1alpha1.GitSource{URL: "http://git.example.com:3000/shop"}},
		"short form":           {source: v1alpha1.GitSource{URL: "git@git.example.com:team/shop.git"}},
		"ssh":                  {source: v1alpha1.GitSource{URL: "ssh://git@git.example.com:2222/shop.git"}},
		"branch with slashes":  {source: v1alpha1.GitSource{URL: good, Revision: "feature/a-b_c.1", Path: "fn/cart/"}},
		"whole ref":            {source: v1alpha1.GitSource{URL: good, Revision: "refs/pull/7/head"}},
		"dots in a folder":     {source: v1alpha1.GitSource{URL: good, Path: "./a..b/..c"}},
		"password":             {source: v1alpha1.GitSource{URL: "https://u:s3cret@git.example.com/x"}, want: []string{"spec.source.git.url", "secretName"}},
		"token as user":        {source: v1alpha1.GitSource{URL: "https://s3cret@git.example.com/x"}, want: []string{"secretName"}},
		"password for ssh":     {source: v1alpha1.GitSource{URL: "ssh://git:s3cret@git.example.com/x"}, want: []string{"secretName"}},
		"no host":              {source: v1alpha1.GitSource{URL: "https:///x"}, want: []string{"no address"}},
		"not to be parsed":     {source: v1alpha1.GitSource{URL: "https://%zz/s3cret"}, want: []string{"no address"}},
		"short form, no path":  {source: v1alpha1.GitSource{URL: "git@git.example.com"}, want: []string{"user@host:path"}},
		"query":                {source: v1alpha1.GitSource{URL: good + "?ref=main"}, want: []string{"revision"}},
		"expression":           {source: v1alpha1.GitSource{URL: good, Revision: "HEAD~1"}, want: []string{"spec.source.git.revision"}},
		"range":                {source: v1alpha1.GitSource{URL: good, Revision: "a..b"}, want: []string{"revision"}},
		"an option":            {source: v1alpha1.GitSource{URL: good, Revision: "--upload-pack=x"}, want: []string{"revision"}},
		"a line end":           {source: v1alpha1.GitSource{URL: good, Revision: "a\nb"}, want: []string{"revision"}},
		"out of the folder":    {source: v1alpha1.GitSource{URL: good, Path: "a/../../b"}, want: []string{"spec.source.git.path"}},
		"absolute folder":      {source: v1alpha1.GitSource{URL: good, Path: "/a"}, want: []string{"spec.source.git.path"}},
		"backslashes":          {source: v1alpha1.GitSource{URL: good, Path: `a\b`}, want: []string{"spec.source.git.path"}},
		"more than one of all": {source: v1alpha1.GitSource{URL: good + "#x", Revision: "^", Path: ".."}, want: []string{"url", "revision", "path"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			fn := testutil.MakeFunction("cart", "shop").Obj()
			fn.Spec.Source.Git = &tc.source
			problems := ValidateFunction(fn, catalogue)
			if (len(problems) == 0) != (len(tc.want) == 0) {
				t.Fatalf("got %v, want %v", problems, tc.want)
			}
			text := ""
			for _, p := range problems {
				text += p.Err.Error() + "\n"
				if p.Reason != v1alpha1.ReasonSourceInvalid {
					t.Errorf("reason is %s", p.Reason)
				}
			}
			for _, word := range tc.want {
				if !strings.Contains(text, word) {
					t.Errorf("%q does not name %q", text, word)
				}
			}
			if strings.Contains(text, "s3cret") {
				t.Errorf("the password is shown: %s", text)
			}
		})
	}
}
