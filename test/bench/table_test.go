// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func exampleTable() *table {
	t := &table{block: "example", title: "An example", columns: []string{"what", "median"}}
	t.add("größer", "12 ms")
	t.add("a|b", "3 ms")
	return t
}

func TestWriteText(t *testing.T) {
	t.Parallel()
	out := &strings.Builder{}
	exampleTable().writeText(out)
	want := `
An example

  what    median
  größer   12 ms
  a|b       3 ms
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("text (-want +got):\n%s", diff)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	want := "An example\n\n" +
		"| what | median |\n" +
		"|---|---:|\n" +
		"| größer | 12 ms |\n" +
		"| a\\|b | 3 ms |\n"
	if diff := cmp.Diff(want, exampleTable().markdown()); diff != "" {
		t.Errorf("Markdown (-want +got):\n%s", diff)
	}
}

func TestRewritePage(t *testing.T) {
	t.Parallel()
	short := &table{block: "short", title: "T", columns: []string{"c"}, rows: [][]string{{"1"}}}
	const filled = "<!-- bench:short -->\n\nT\n\n| c |\n|---|\n| 1 |\n\n<!-- /bench:short -->"
	tests := map[string]struct {
		page      string
		want      string
		wantError bool
	}{
		"empty block": {
			page: "before\n<!-- bench:short -->\n<!-- /bench:short -->\nafter\n", want: "before\n" + filled + "\nafter\n",
		},
		"old table goes": {
			page: "<!-- bench:short -->\nold\n\n<!-- /bench:short -->\n", want: filled + "\n",
		},
		"other blocks stay": {
			page: "<!-- bench:long -->\nold\n<!-- /bench:long -->\n<!-- bench:short -->\n<!-- /bench:short -->\n",
			want: "<!-- bench:long -->\nold\n<!-- /bench:long -->\n" + filled + "\n",
		},
		"no change the second time": {page: filled + "\n", want: filled + "\n"},
		"no block":                  {page: "nothing here\n", wantError: true},
		"no end":                    {page: "<!-- bench:short -->\nold\n", wantError: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := rewritePage([]byte(tc.page), []*table{short})
			if (err != nil) != tc.wantError {
				t.Fatalf("rewritePage: %v, want an error: %v", err, tc.wantError)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("page (-want +got):\n%s", diff)
			}
		})
	}
}

func TestRewriteFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(path, []byte("<!-- bench:example -->\n<!-- /bench:example -->\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := rewriteFile(path, []*table{exampleTable()}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(got), "| größer | 12 ms |") {
		t.Errorf("the page lacks the table:\n%s", got)
	}
	if err := rewriteFile(filepath.Join(t.TempDir(), "none.md"), nil); err == nil {
		t.Error("a page that does not exist was rewritten")
	}
}

// The page that is published has a block for every table that there is.
func TestPageHasAllBlocks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "benchmarks.md"))
	if err != nil {
		t.Fatal(err)
	}
	tables := []*table{}
	for _, block := range []string{
		"machine", "noop", "noop-writes", "edit", "edit-calls", "edit-stages-python3.11", "edit-stages-nodejs20",
		"dependency", "dependency-calls", "dependency-stages-nodejs20", "warm",
	} {
		tables = append(tables, &table{block: block, columns: []string{"c"}})
	}
	if _, err := rewritePage(page, tables); err != nil {
		t.Error(err)
	}
}
