// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseWrites(t *testing.T) {
	t.Parallel()
	metrics := `# HELP apiserver_request_total Counter
apiserver_request_total{code="201",component="apiserver",dry_run="",group="batch",resource="jobs",scope="resource",subresource="",verb="POST",version="v1"} 12
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="status",verb="PATCH",version="v1"} 1.2e+03
apiserver_request_total{code="201",component="apiserver",dry_run="",group="events.k8s.io",resource="events",scope="resource",subresource="",verb="POST",version="v1"} 30
apiserver_request_total{code="409",component="apiserver",dry_run="",group="batch",resource="jobs",scope="resource",subresource="",verb="POST",version="v1"} 3
apiserver_request_total{code="200",component="apiserver",dry_run="All",group="batch",resource="jobs",scope="resource",subresource="",verb="POST",version="v1"} 4
apiserver_request_total{code="200",component="apiserver",dry_run="",group="",resource="pods",scope="resource",subresource="",verb="GET",version="v1"} 5
apiserver_request_total{code="200",component="apiserver",dry_run="",group="coordination.k8s.io",resource="leases",scope="resource",subresource="",verb="PUT",version="v1"} 70
other_total{code="200"} 1
`
	after, err := parseWrites([]byte(metrics))
	if err != nil {
		t.Fatal(err)
	}
	before := map[writeKey]int{{group: "batch", resource: "jobs", verb: "POST"}: 2}
	want := [][]string{
		{"pods/status, patch", "Kubernetes", "1200", "120.00"},
		{"events, post", "sless", "20", "2.00"},
		{"events, post", "Kubernetes", "10", "1.00"},
		{"jobs, post", "sless", "10", "1.00"},
		{"together", "sless", "30", "3.00"},
		{"together", "Kubernetes", "1210", "121.00"},
	}
	if diff := cmp.Diff(want, writeRows(before, after, 10, 20)); diff != "" {
		t.Errorf("writeRows (-want +got):\n%s", diff)
	}
}

func TestParseWritesRefusesWhatItCannotRead(t *testing.T) {
	t.Parallel()
	for _, line := range []string{`apiserver_request_total{code="200"`, `apiserver_request_total{code="200",verb="POST"} many`} {
		if _, err := parseWrites([]byte(line)); err == nil {
			t.Errorf("%q is taken", line)
		}
	}
}
