// SPDX-License-Identifier: Apache-2.0

package archive

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
)

func TestCheckPath(t *testing.T) {
	t.Parallel()
	tests := map[string]string{ // path to problem
		"handler.py":                          "",
		"src/app.main.py":                     "",
		"été/日本語.py":                          "",
		".env":                                "",
		"..a/...":                             "",
		"a b/c d.txt":                         "",
		"-rf":                                 "",
		"wh.x":                                "",
		"a:b":                                 "starts with a drive letter",
		"ab:c":                                "",
		"":                                    "is an empty path",
		"/etc/passwd":                         "is an absolute path",
		"//a":                                 "is an absolute path",
		"..":                                  "leads out of the source",
		"../a":                                "leads out of the source",
		"a/../../b":                           "leads out of the source",
		"a/..":                                "leads out of the source",
		"a/ .. /b":                            "leads out of the source",
		"\u2025/a":                            "leads out of the source",
		"\uff0e\uff0e/a":                      "leads out of the source",
		"\u2024./a":                           "leads out of the source",
		".":                                   `has the element "."`,
		"./a":                                 `has the element "."`,
		"a/./b":                               `has the element "."`,
		"a//b":                                "has an empty element (// or / at the end)",
		"a/":                                  "has an empty element (// or / at the end)",
		" /a":                                 "has an element of spaces only",
		"a\\b":                                `has a backslash; folders are separated by /`,
		"..\\a":                               `has a backslash; folders are separated by /`,
		"C:/a":                                "starts with a drive letter",
		"z:a":                                 "starts with a drive letter",
		"a\x00b":                              "has a control character",
		"a\nb":                                "has a control character",
		"a\u0085b":                            "has a control character",
		"a\u202eyp.b":                         "has a control character",
		"\ufeffa":                             "has a control character",
		"a\xff":                               "is not valid UTF-8",
		".wh.handler.py":                      "has a name that starts with .wh., which deletes files in an image",
		"a/.wh..wh..opq":                      "has a name that starts with .wh., which deletes files in an image",
		".wh.a/b":                             "has a name that starts with .wh., which deletes files in an image",
		strings.Repeat("n", 256):              "has a name that is too long",
		strings.Repeat("é", 128):              "has a name that is too long",
		strings.Repeat("a/", 32) + "b":        "is nested too deeply",
		strings.Repeat("a/", 31) + "b":        "",
		strings.Repeat("abcdefg/", 128) + "a": "is a path that is too long",
	}
	for name, want := range tests {
		t.Run(quote(name), func(t *testing.T) {
			t.Parallel()
			if got := checkPath(name, DefaultLimits); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

func TestErrorIsSafeToShow(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		err  error
		want string
	}{
		"control characters": {err: pathError("a\n\x1b[31m", "is bad"), want: `"a\n\x1b[31m" is bad`},
		"long path": {
			err: pathError(strings.Repeat("x", 5000), "is bad"), want: `"` + strings.Repeat("x", 160) + `..." is bad`,
		},
		"whole source": {err: sourceError("has no files"), want: "the source has no files"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := tc.err.Error(); got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
		})
	}
}

// The same folders come again in every path. Normalising them each time takes ten seconds for a zip of 100 KB.
func TestPathSetNormalisesOnce(t *testing.T) {
	paths, folder := newPathSet(DefaultLimits), strings.Repeat("a"+strings.Repeat("\u0316\u0301", 7)+"/", 31)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for i := range 9900 {
		if err := paths.add(folder+fmt.Sprintf("\u00e9%d", i), false); err != nil {
			t.Fatal(err)
		}
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 64<<20 {
		t.Errorf("%d bytes were allocated", got)
	}
}
