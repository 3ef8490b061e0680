// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// machineTable says where the figures come from.
func (b *bench) machineTable(ctx context.Context) *table {
	t := &table{block: "machine", title: "Where this was measured", columns: []string{"what", "value"}}
	t.add("date", b.now().UTC().Format("2006-01-02"))
	t.add("processor", fmt.Sprintf("%d × %s", runtime.NumCPU(), fieldOf("/proc/cpuinfo", "model name")))
	t.add("memory", gibibytes(fieldOf("/proc/meminfo", "MemTotal")))
	if load, err := os.ReadFile("/proc/loadavg"); err == nil {
		t.add("load before (1, 5, 15 min)", strings.Join(firstFields(string(load), 3), ", "))
	}
	if version, err := b.kube.Discovery().ServerVersion(); err == nil {
		t.add("Kubernetes", version.GitVersion)
	}
	nodes := &corev1.NodeList{}
	if err := b.client.List(ctx, nodes); err == nil && len(nodes.Items) > 0 {
		info := nodes.Items[0].Status.NodeInfo
		t.add("nodes", strconv.Itoa(len(nodes.Items)))
		t.add("node", info.OSImage+", kernel "+info.KernelVersion+", "+info.ContainerRuntimeVersion)
	}
	return t
}

// fieldOf returns the value of the first line `name: value` of a file, or "unknown".
func fieldOf(path, name string) string {
	file, err := os.Open(path)
	if err != nil {
		return "unknown"
	}
	defer func() { _ = file.Close() }()
	lines := bufio.NewScanner(file)
	for lines.Scan() {
		key, value, _ := strings.Cut(lines.Text(), ":")
		if strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

// gibibytes turns "8123456 kB" into "7.7 GiB".
func gibibytes(kilobytes string) string {
	n, err := strconv.ParseFloat(strings.TrimSuffix(kilobytes, " kB"), 64)
	if err != nil {
		return kilobytes
	}
	return strconv.FormatFloat(n/(1<<20), 'f', 1, 64) + " GiB"
}

func firstFields(text string, n int) []string {
	fields := strings.Fields(text)
	return fields[:min(n, len(fields))]
}
