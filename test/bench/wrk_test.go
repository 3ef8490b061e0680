// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const wrkHead = `Running 5s test @ http://10.244.0.7:8080/
  2 threads and 32 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     9.51ms    5.02ms  61.12ms   71.25%
    Req/Sec     1.73k   187.11     2.21k    68.00%
`

const wrkLatency = `  Latency Distribution
     50%  845.00us
     75%   11.87ms
     90%   15.99ms
     99%    1.02s 
`

func TestParseWrk(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		report    string
		want      load
		wantError bool
	}{
		"all is well": {
			report: wrkHead + wrkLatency + "  17282 requests in 5.01s, 2.41MB read\nRequests/sec:   3449.53\n" +
				"Transfer/sec:    492.68KB\n",
			want: load{perSecond: 3449.53, p50: 845 * time.Microsecond, p99: 1020 * time.Millisecond},
		},
		"failures of both kinds": {
			report: wrkHead + wrkLatency + "  100 requests in 5.01s, 2.41MB read\n" +
				"  Socket errors: connect 1, read 2, write 3, timeout 4\n" +
				"  Non-2xx or 3xx responses: 90\nRequests/sec:     20.00\n",
			want: load{perSecond: 20, p50: 845 * time.Microsecond, p99: 1020 * time.Millisecond, failed: 100},
		},
		"no latencies": {report: wrkHead + "Requests/sec:   3449.53\n", wantError: true},
		"no rate":      {report: wrkHead + wrkLatency, wantError: true},
		"empty":        {wantError: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := parseWrk(tc.report)
			if tc.wantError {
				if err == nil {
					t.Errorf("parseWrk = %+v, want an error", got)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(load{})); diff != "" {
				t.Errorf("load (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLastLine(t *testing.T) {
	t.Parallel()
	if got, want := lastLine("one\ntwo\n"), "two"; got != want {
		t.Errorf("lastLine = %q, want %q", got, want)
	}
}
