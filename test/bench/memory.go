// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	systemNamespace = "sless-system"
	metricsPort     = "8082"
	memoryMetric    = "process_resident_memory_bytes"
	memoryEvery     = 20 * time.Millisecond
)

// watchMemory looks at the memory of the gateway over and over while do runs, and returns the highest figure in bytes.
func (b *bench) watchMemory(ctx context.Context, do func() error) (float64, error) {
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	type outcome struct {
		highest float64
		err     error
	}
	watched := make(chan outcome, 1)
	go func() {
		o := outcome{}
		for watchCtx.Err() == nil && o.err == nil {
			var now float64
			now, o.err = b.gatewayMemory(watchCtx)
			o.highest = max(o.highest, now)
			_ = sleep(watchCtx, memoryEvery)
		}
		watched <- o
	}()
	err := do()
	interrupted := watchCtx.Err() == nil
	stop()
	o := <-watched
	if interrupted && errors.Is(o.err, context.Canceled) {
		o.err = nil // It was looking when the work was done.
	}
	return o.highest, errors.Join(err, o.err)
}

// gatewayMemory returns the resident memory of the gateway in bytes, as its metrics tell.
func (b *bench) gatewayMemory(ctx context.Context) (float64, error) {
	pods := &corev1.PodList{}
	if err := b.client.List(ctx, pods, client.InNamespace(systemNamespace),
		client.MatchingLabels{"control-plane": "gateway"}); err != nil {
		return 0, fmt.Errorf("looking for the gateway: %w", err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if pod.Status.Phase != corev1.PodRunning || pod.DeletionTimestamp != nil {
			continue
		}
		text, err := b.kube.CoreV1().Pods(pod.Namespace).ProxyGet("http", pod.Name, metricsPort, "/metrics", nil).DoRaw(ctx)
		if err != nil {
			return 0, fmt.Errorf("reading the metrics of %s: %w", pod.Name, err)
		}
		return metricOf(text, memoryMetric)
	}
	return 0, errors.New("no gateway runs")
}

// metricOf returns the value of a metric without labels from a page of metrics.
func metricOf(page []byte, name string) (float64, error) {
	lines := bufio.NewScanner(bytes.NewReader(page))
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), name+" "); ok {
			return strconv.ParseFloat(value, 64)
		}
	}
	return 0, fmt.Errorf("there is no metric %s", name)
}

func mebibytes(size float64) float64 { return size / (1 << 20) }

func showMemory(size float64) string {
	return strconv.FormatFloat(mebibytes(size), 'f', 1, 64) + " MiB"
}
