// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		change func(*options)
		want   string
	}{
		"good":             {change: func(*options) {}},
		"cluster":          {change: func(o *options) { o.cluster = "mine" }, want: `cluster is "mine"`},
		"benchmark":        {change: func(o *options) { o.only = []string{"edit", "fly"} }, want: `no benchmark "fly"`},
		"runtime":          {change: func(o *options) { o.runtimes = []string{"cobol"} }, want: `runtime "cobol"`},
		"too few runs":     {change: func(o *options) { o.runs = -1 }, want: "number of runs"},
		"too many runs":    {change: func(o *options) { o.runs = maxRuns + 1 }, want: "number of runs"},
		"endless load":     {change: func(o *options) { o.duration = time.Hour }, want: "duration of a load"},
		"load of no time":  {change: func(o *options) { o.duration = 0 }, want: "duration of a load"},
		"current, chosen":  {change: func(o *options) { o.cluster, o.only = clusterCurrent, []string{"edit"} }},
		"as often as able": {change: func(o *options) { o.runs = maxRuns }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options{cluster: clusterLocal, runtimes: runtimeNames(), duration: time.Second}
			tc.change(&o)
			got := ""
			if err := o.check([]string{"edit", "warm"}); err != nil {
				got = err.Error()
			}
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("check: %q, want %q", got, tc.want)
			}
		})
	}
}

func TestProgramsChangeWithTheNumber(t *testing.T) {
	t.Parallel()
	for _, p := range programs() {
		t.Run(p.runtime, func(t *testing.T) {
			t.Parallel()
			one, two := p.function("f", 1), p.function("f", 2)
			if cmp.Equal(one, two) {
				t.Error("the code does not change with the number")
			}
			if strings.Contains(one.Spec.Source.Inline.Files[p.file], "%!") {
				t.Errorf("the code is not complete: %s", one.Spec.Source.Inline.Files[p.file])
			}
			if p.manifestFile == "" {
				return
			}
			files := p.dependentFunction("f", 1, `a "nonce"`).Spec.Source.Inline.Files
			manifest := map[string]any{}
			if err := json.Unmarshal([]byte(files[p.manifestFile]), &manifest); err != nil {
				t.Errorf("the manifest is no JSON: %v", err)
			}
			if manifest["description"] != `a "nonce"` || strings.Contains(files[p.file], "%!") {
				t.Errorf("the files are not complete: %v", files)
			}
		})
	}
}

func TestNumberOf(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		body      string
		want      int
		wantError bool
	}{
		"a number":      {body: `{"number": 12}`, want: 12},
		"zero":          {body: `{"number": 0}`},
		"no number":     {body: `{}`, wantError: true},
		"not an object": {body: `12`, wantError: true},
		"not JSON":      {body: `<html>`, wantError: true},
		"no body":       {wantError: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := numberOf([]byte(tc.body))
			if got != tc.want || (err != nil) != tc.wantError {
				t.Errorf("numberOf(%s) = %d, %v; want %d, an error: %v", tc.body, got, err, tc.want, tc.wantError)
			}
		})
	}
}

func TestWriteCount(t *testing.T) {
	t.Parallel()
	w := &writeCount{}
	same := versions{function: "1", deployment: "2", service: "3"}
	w.add(same, same, 0)
	w.add(same, versions{function: "4", deployment: "5", service: "3"}, 7)
	if diff := cmp.Diff([]string{"n", "2", "1", "1", "0", "7"}, w.row("n", 2)); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
}

func TestGibibytes(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{"8388608 kB": "8.0 GiB", "unknown": "unknown"} {
		if got := gibibytes(in); got != want {
			t.Errorf("gibibytes(%q) = %q, want %q", in, got, want)
		}
	}
}
