// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// writeKey tells writes apart as the API server's metrics do.
type writeKey struct {
	group, resource, subresource, verb string
}

const requestsMetric = "apiserver_request_total{"

// apiWrites reads how many requests that write the API server has answered well since its start.
func (b *bench) apiWrites(ctx context.Context) (map[writeKey]int, error) {
	raw, err := b.kube.Discovery().RESTClient().Get().AbsPath("/metrics").DoRaw(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the metrics of the API server: %w", err)
	}
	return parseWrites(raw)
}

// parseWrites adds up the requests that changed something. Those that were refused, or were a dry run, are left out.
func parseWrites(metrics []byte) (map[writeKey]int, error) {
	writes := map[writeKey]int{}
	lines := bufio.NewScanner(bytes.NewReader(metrics))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		rest, ok := strings.CutPrefix(lines.Text(), requestsMetric)
		if !ok {
			continue
		}
		labels, value, ok := strings.Cut(rest, "} ")
		if !ok {
			return nil, fmt.Errorf("a line of the metrics is %.200q", lines.Text())
		}
		set := map[string]string{}
		for pair := range strings.SplitSeq(labels, `",`) {
			name, text, _ := strings.Cut(pair, `="`)
			set[name] = strings.TrimSuffix(text, `"`)
		}
		if !slices.Contains([]string{"POST", "PUT", "PATCH", "APPLY", "DELETE", "DELETECOLLECTION"}, set["verb"]) ||
			!strings.HasPrefix(set["code"], "2") || set["dry_run"] != "" {
			continue
		}
		n, err := strconv.ParseFloat(value, 64)
		if err != nil {
			return nil, fmt.Errorf("a line of the metrics is %.200q", lines.Text())
		}
		writes[writeKey{set["group"], set["resource"], set["subresource"], set["verb"]}] += int(n)
	}
	return writes, lines.Err()
}

// byKubernetes are the writes that Kubernetes itself makes for a Job. All others of a run are those of sless, or the
// creation of the FunctionJob itself.
func byKubernetes(k writeKey) bool {
	switch k.resource {
	case "pods":
		return true
	case "jobs":
		return k.subresource == "status"
	case "events":
		return k.group != "sless"
	}
	return false
}

// background are writes that go on whether anything runs or not.
func background(k writeKey) bool {
	return slices.Contains([]string{"leases", "nodes", "subjectaccessreviews", "tokenreviews", "csinodes"}, k.resource)
}

// eventsOfRuns is what sless and the scheduler both write.
var eventsOfRuns = writeKey{group: "events.k8s.io", resource: "events", verb: "POST"}

// writeRows tells what was written between two looks, most first, and the sums. ownEvents are how many of the events are
// those of sless.
func writeRows(before, after map[writeKey]int, n, ownEvents int) [][]string {
	diff := map[writeKey]int{}
	for k, count := range after {
		if written := count - before[k]; written > 0 && !background(k) {
			diff[k] = written
		}
	}
	diff[eventsOfRuns] = max(diff[eventsOfRuns]-ownEvents, 0)
	diff[writeKey{group: "sless", resource: "events", verb: "POST"}] = ownEvents
	keys := slices.SortedFunc(maps.Keys(diff), func(a, b writeKey) int {
		return cmp.Or(diff[b]-diff[a], strings.Compare(a.resource+a.subresource+a.verb, b.resource+b.subresource+b.verb))
	})
	rows := [][]string{}
	ours, theirs := 0, 0
	for _, k := range keys {
		if diff[k] == 0 {
			continue
		}
		by := "sless"
		switch {
		case byKubernetes(k):
			by = "Kubernetes"
			theirs += diff[k]
		case k.resource == "functionjobs" && k.verb == "POST":
			by = "user"
		default:
			ours += diff[k]
		}
		name := k.resource
		if k.subresource != "" {
			name += "/" + k.subresource
		}
		rows = append(rows, []string{name + ", " + strings.ToLower(k.verb), by, itoa(diff[k]), each(diff[k], n)})
	}
	return append(rows,
		[]string{"together", "sless", itoa(ours), each(ours, n)},
		[]string{"together", "Kubernetes", itoa(theirs), each(theirs, n)})
}

func each(count, n int) string { return strconv.FormatFloat(float64(count)/float64(n), 'f', 2, 64) }
