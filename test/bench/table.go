// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"
)

// table is a result. The first column is text, the others are figures.
type table struct {
	// block is the name of the markers in the page between which the table goes.
	block   string
	title   string
	columns []string
	rows    [][]string
}

func (t *table) add(cells ...string) { t.rows = append(t.rows, cells) }

// writeText writes the table for a terminal.
func (t *table) writeText(w io.Writer) {
	widths := make([]int, len(t.columns))
	all := append([][]string{t.columns}, t.rows...)
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	_, _ = fmt.Fprintf(w, "\n%s\n\n", t.title)
	for _, row := range all {
		line := strings.Builder{}
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if i == 0 {
				line.WriteString("  " + cell + pad)
			} else {
				line.WriteString("  " + pad + cell)
			}
		}
		_, _ = fmt.Fprintln(w, strings.TrimRight(line.String(), " "))
	}
}

// markdown returns the table as Markdown, with its title as a caption line above.
func (t *table) markdown() string {
	out := &strings.Builder{}
	_, _ = fmt.Fprintf(out, "%s\n\n", t.title)
	writeMarkdownRow(out, t.columns)
	out.WriteString("|---" + strings.Repeat("|---:", len(t.columns)-1) + "|\n")
	for _, row := range t.rows {
		writeMarkdownRow(out, row)
	}
	return out.String()
}

func writeMarkdownRow(out *strings.Builder, cells []string) {
	for _, cell := range cells {
		cell = strings.NewReplacer("|", `\|`, "\n", " ").Replace(cell)
		out.WriteString("| " + cell + " ")
	}
	out.WriteString("|\n")
}

// rewriteFile puts the tables into the page. Blocks of the page that have no table stay as they are.
func rewriteFile(path string, tables []*table) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	rewritten, err := rewritePage(page, tables)
	if err != nil {
		return fmt.Errorf("rewriting %s: %w", path, err)
	}
	if bytes.Equal(page, rewritten) {
		return nil
	}
	return os.WriteFile(path, rewritten, 0o644)
}

// rewritePage replaces what is between `<!-- bench:NAME -->` and `<!-- /bench:NAME -->` by the table of that block. It
// is an error when the page has no such block.
func rewritePage(page []byte, tables []*table) ([]byte, error) {
	text := string(page)
	for _, t := range tables {
		begin, end := "<!-- bench:"+t.block+" -->\n", "<!-- /bench:"+t.block+" -->"
		before, rest, ok := strings.Cut(text, begin)
		if !ok {
			return nil, fmt.Errorf("it has no line %q", strings.TrimSpace(begin))
		}
		_, after, ok := strings.Cut(rest, end)
		if !ok {
			return nil, fmt.Errorf("it has no line %q", end)
		}
		text = before + begin + "\n" + t.markdown() + "\n" + end + after
	}
	return []byte(text), nil
}
