// SPDX-License-Identifier: Apache-2.0

package main

import (
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// benchHandlers answer with a small object, as most functions do.
var benchHandlers = map[string]string{
	"handler.py": "def handle(event, context):\n    return {'hello': 'world'}\n",
	"handler.js": "exports.handle = () => ({ hello: 'world' });\n",
}

// BenchmarkWarmCall measures a call over one kept-alive connection: client, watchdog, worker and back.
func BenchmarkWarmCall(b *testing.B) {
	for _, l := range []language{python, node} {
		b.Run(l.name, func(b *testing.B) {
			p := newProgram(b, l, benchHandlers).serve()
			durations := make([]time.Duration, 0, b.N)
			for b.Loop() {
				started := time.Now()
				if got := p.get("/"); got.code != 200 {
					b.Fatalf("reply %d %q, %v", got.code, got.body, got.err)
				}
				durations = append(durations, time.Since(started))
			}
			reportPercentiles(b, durations)
		})
	}
}

// BenchmarkParallelCalls measures throughput with 16 callers.
func BenchmarkParallelCalls(b *testing.B) {
	for _, l := range []language{python, node} {
		b.Run(l.name, func(b *testing.B) {
			p := newProgram(b, l, benchHandlers).serve()
			b.SetParallelism(8)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if got := p.get("/"); got.code != 200 {
						b.Errorf("reply %d %q, %v", got.code, got.body, got.err)
					}
				}
			})
		})
	}
}

// BenchmarkColdStart measures from the start of the watchdog to a ready function, and the worker's share of it.
func BenchmarkColdStart(b *testing.B) {
	for _, l := range []language{python, node} {
		b.Run(l.name, func(b *testing.B) {
			var ready, load []time.Duration
			for b.Loop() {
				p := newProgram(b, l, benchHandlers)
				started := time.Now()
				p.serve()
				ready = append(ready, time.Since(started))
				_, after, _ := strings.Cut(p.stderr.String(), `duration=`)
				text, _, _ := strings.Cut(after, "\n")
				if d, err := time.ParseDuration(text); err == nil {
					load = append(load, d)
				}
				_ = p.cmd.Process.Signal(syscall.SIGTERM)
				<-p.exited
			}
			slices.Sort(load)
			b.ReportMetric(float64(load[len(load)/2].Microseconds())/1000, "load-p50-ms")
			reportPercentiles(b, ready)
		})
	}
}

func reportPercentiles(b *testing.B, durations []time.Duration) {
	slices.Sort(durations)
	b.ReportMetric(float64(durations[len(durations)/2].Microseconds()), "p50-µs")
	b.ReportMetric(float64(durations[len(durations)*99/100].Microseconds()), "p99-µs")
}
