// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"
)

// TestChunksArriveAsTheyCome opens the handler's gate only after its first chunk was read.
func TestChunksArriveAsTheyCome(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		for _, path := range []string{"/stream", "/stream-async"} {
			p := newProgram(t, l, nil).serve()
			response, err := http.Get(p.url + path)
			if err != nil {
				t.Fatal(err)
			}
			lines := bufio.NewReader(response.Body)
			if first, err := lines.ReadString('\n'); first != "first\n" {
				t.Fatalf("first chunk %q, %v", first, err)
			}
			p.open("open")
			rest, err := io.ReadAll(lines)
			if want := "second\n{\"third\":3}\n"; string(rest) != want || err != nil {
				t.Errorf("%s: rest %q, %v, want %q", path, rest, err, want)
			}
			if got := response.Header.Get("Content-Type"); got != "text/plain; charset=utf-8" {
				t.Errorf("%s: content type %q", path, got)
			}
		}
	})
}

func TestServerSentEvents(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		response, err := http.Get(p.url + "/events")
		if err != nil {
			t.Fatal(err)
		}
		if got := response.Header.Get("Content-Type"); got != "text/event-stream" {
			t.Errorf("content type %q", got)
		}
		lines := bufio.NewReader(response.Body)
		for _, number := range []string{"0", "1", "2"} {
			for _, want := range []string{"id: " + number + "\n", "data: " + number + "\n", "\n"} {
				if line, err := lines.ReadString('\n'); line != want {
					t.Fatalf("line %q, %v, want %q", line, err, want)
				}
			}
			p.open("event" + number) // only now the handler goes on
		}
		if _, err := lines.ReadByte(); err != io.EOF {
			t.Errorf("end of the stream: %v", err)
		}
	})
}

func TestFailureInsideAStreamBreaksTheConnection(t *testing.T) {
	t.Parallel()
	eachLanguage(t, func(t *testing.T, l language) {
		p := newProgram(t, l, nil).serve()
		got := p.get("/fail-late")
		if got.code != http.StatusOK || got.err == nil || got.body != "0\n1\n" {
			t.Errorf("reply %d %q, %v, want both good chunks and a broken connection", got.code, got.body, got.err)
		}
		p.eventually("stack in the log", func() bool { return strings.Contains(p.stderr.String(), "stream broke") })
		if got := p.get("/zero"); got.code != http.StatusOK {
			t.Errorf("next call: %d %q", got.code, got.body)
		}
	})
}
