// SPDX-License-Identifier: Apache-2.0

package dockerfile

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const text = `# syntax=docker/dockerfile:1
ARG BASE=lang:1.2-slim
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
RUN go build \
    -o /out/watchdog .

FROM ${BASE}
# A comment between
ENV A=1 B="two words" \
    C='it''s'
LABEL x="y"
WORKDIR /app
WORKDIR sub
COPY --from=build --chmod=0755 /out/watchdog /sless/watchdog
COPY one two files/
RUN mkdir -p /app /opt/x/
EXPOSE 8080
USER 65532:65532
ENTRYPOINT ["/sless/watchdog", "serve"]
`
	want := &Stage{
		From: "lang:1.2-slim", Env: map[string]string{"A": "1", "B": "two words", "C": "its"},
		Labels: map[string]string{"x": "y"}, User: "65532:65532", WorkDir: "/app/sub",
		Entrypoint: []string{"/sless/watchdog", "serve"},
		Copies: []Copy{
			{Stage: "build", Source: "/out/watchdog", Target: "/sless/watchdog", Mode: "0755"},
			{Source: "one", Target: "/app/sub/files/one"}, {Source: "two", Target: "/app/sub/files/two"},
		},
		Dirs: []string{"/app", "/opt/x"},
	}
	got, err := Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("last stage (-want +got):\n%s", diff)
	}
}

func TestParseRefuses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct{ text, wantErr string }{
		"no stage":             {"ENV A=1", "no FROM"},
		"a command":            {"FROM x\nRUN true", "RUN true"},
		"more than mkdir":      {"FROM x\nRUN mkdir -p /a && true", "mkdir"},
		"a relative directory": {"FROM x\nRUN mkdir -p a", "mkdir"},
		"a shell entrypoint":   {"FROM x\nENTRYPOINT run me", "JSON"},
		"a variable":           {"FROM x\nENV A=$PATH:/x", "variables"},
		"an open quote":        {"FROM x\nENV A=\"x", "quote"},
		"old ENV form":         {"FROM x\nENV A 1", "name=value"},
		"a copy to nowhere":    {"FROM x\nCOPY a", "target"},
		"a copy as JSON":       {"FROM x\nCOPY [\"a\", \"b\"]", "words"},
		"a copy with an owner": {"FROM x\nCOPY --chown=1 a b", "--chown"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Parse(tt.text); err == nil || !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("error %v, want one with %q", err, tt.wantErr)
			}
		})
	}
}
