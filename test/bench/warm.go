// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/naeel/sless/api/v1alpha1"
	"github.com/naeel/sless/internal/naming"
)

const (
	warmNumber = 1
	// warmUp is how long a target is called before it is measured.
	warmUp = time.Second
)

// target is a way to the same pod.
type target struct {
	name string
	url  string
}

// load is what one load on one target gave.
type load struct {
	perSecond float64
	p50, p99  time.Duration
	// failed are calls without a 2xx answer.
	failed int
}

// generator puts load on a URL, its address.
type generator interface {
	String() string
	run(ctx context.Context, address string, connections int, duration time.Duration) (load, error)
}

// measureWarm loads each function through the gateway, through its Service and straight at its pod.
func measureWarm(ctx context.Context, b *bench, runs int) ([]*table, error) {
	return b.compareWays(ctx, runs, "warm", "Warm calls", "call", "requests/s of the pod's", b.warmTargets)
}

// compareWays loads the targets of each program in turns, so that what else the machine does hits all of them alike. The
// table's first column is called subject, its last one is the share of the first target's calls.
func (b *bench) compareWays(
	ctx context.Context, runs int, block, title, subject, share string,
	targetsOf func(context.Context, program) ([]target, error),
) ([]*table, error) {
	gen := chooseGenerator(ctx, b.say)
	summary := &table{
		block:   block,
		title:   fmt.Sprintf("%s, under %s, %d × %s each", title, gen, runs, b.opts.duration),
		columns: []string{subject, "connections", "requests/s", "min–max", "p50", "p99", "failures", share},
	}
	for _, p := range b.programs() {
		targets, err := targetsOf(ctx, p)
		if errors.Is(err, errElsewhere) {
			b.say("Leaving %s out: %v", block, err)
			return nil, nil
		}
		if err != nil {
			return []*table{summary}, err
		}
		for _, connections := range []int{1, 32} {
			loads, err := b.loadInTurns(ctx, gen, targets, connections, runs)
			summary.rows = append(summary.rows, warmRows(p.runtime, targets, connections, loads)...)
			if err != nil {
				return []*table{summary}, err
			}
		}
	}
	return []*table{summary}, nil
}

// warmTargets deploys the function and returns the three ways to its pod.
func (b *bench) warmTargets(ctx context.Context, p program) ([]target, error) {
	fn := p.function("warm-"+strings.ReplaceAll(p.runtime, ".", "-"), warmNumber)
	b.say("Deploying %s", fn.Name)
	fn, err := b.deploy(ctx, fn)
	if err != nil {
		return nil, err
	}
	deploy := naming.DeployNamespace(fn.Namespace)
	pods := &corev1.PodList{}
	if err := b.client.List(ctx, pods, client.InNamespace(deploy),
		client.MatchingLabels{v1alpha1.LabelFunction: fn.Name}); err != nil {
		return nil, fmt.Errorf("listing the pods: %w", err)
	}
	service := &corev1.Service{}
	if err := b.client.Get(ctx, client.ObjectKey{Namespace: deploy, Name: fn.Name}, service); err != nil {
		return nil, fmt.Errorf("reading the Service: %w", err)
	}
	if len(pods.Items) != 1 {
		return nil, fmt.Errorf("%s has %d pods and not one", fn.Name, len(pods.Items))
	}
	gateway, err := url.Parse(fn.Status.URL)
	if err != nil {
		return nil, fmt.Errorf("reading the URL of %s: %w", fn.Name, err)
	}
	for _, address := range []string{gateway.Hostname(), pods.Items[0].Status.HostIP} {
		if err := onlyThisMachine(ctx, address); err != nil {
			return nil, err
		}
	}
	port := strconv.Itoa(naming.FunctionPort)
	direct := func(ip string) string { return "http://" + net.JoinHostPort(ip, port) + "/" }
	targets := []target{
		{"pod", direct(pods.Items[0].Status.PodIP)},
		{"Service", direct(service.Spec.ClusterIP)},
		{"gateway", fn.Status.URL},
	}
	for _, t := range targets {
		if number, err := call(ctx, t.url); err != nil || number != warmNumber {
			b.wrongAnswer("%s of %s answers %d, %v", t.name, fn.Name, number, err)
		}
	}
	return targets, nil
}

var errElsewhere = errors.New("warm puts load on a cluster of this machine only")

// onlyThisMachine is errElsewhere for a host that is another machine: load goes to nobody else.
func onlyThisMachine(ctx context.Context, host string) error {
	addresses, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return fmt.Errorf("looking up %s: %w", host, err)
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		return fmt.Errorf("listing this machine's addresses: %w", err)
	}
	for _, address := range addresses {
		if !isOwn(address, own) {
			return fmt.Errorf("%s is another machine: %w", host, errElsewhere)
		}
	}
	return nil
}

func isOwn(address netip.Addr, own []net.Addr) bool {
	for _, o := range own {
		if prefix, err := netip.ParsePrefix(o.String()); err == nil && prefix.Addr().Unmap() == address.Unmap() {
			return true
		}
	}
	return false
}

// loadInTurns loads each target runs times. The result has the loads of each target.
func (b *bench) loadInTurns(
	ctx context.Context, gen generator, targets []target, connections, runs int,
) ([][]load, error) {
	loads := make([][]load, len(targets))
	for run := range runs {
		for i, t := range targets {
			if run == 0 {
				if _, err := gen.run(ctx, t.url, connections, warmUp); err != nil {
					return loads, err
				}
			}
			l, err := gen.run(ctx, t.url, connections, b.opts.duration)
			if err != nil {
				return loads, err
			}
			if l.failed > 0 {
				b.wrongAnswer("%d calls of %s under load failed", l.failed, t.url)
			}
			loads[i] = append(loads[i], l)
			b.say("%s, %d connections, %d of %d: %.0f requests/s, p50 %s, p99 %s", t.name, connections, run+1, runs,
				l.perSecond, showDuration(l.p50), showDuration(l.p99))
		}
	}
	return loads, nil
}

// warmRows sums up: medians over the runs, and the ratio of the medians to that of the first target.
func warmRows(what string, targets []target, connections int, loads [][]load) [][]string {
	rows := [][]string{}
	direct := 0.0
	for i, t := range targets {
		var rates []float64
		var p50, p99 []time.Duration
		failed := 0
		for _, l := range loads[i] {
			rates, p50, p99 = append(rates, l.perSecond), append(p50, l.p50), append(p99, l.p99)
			failed += l.failed
		}
		if len(rates) == 0 {
			continue
		}
		if i == 0 {
			direct = median(rates)
		}
		ratio := "–"
		if direct > 0 {
			ratio = fmt.Sprintf("%.0f %%", 100*median(rates)/direct)
		}
		rows = append(rows, []string{
			what + ", " + t.name, strconv.Itoa(connections), fmt.Sprintf("%.0f", median(rates)),
			fmt.Sprintf("%.0f–%.0f", quantile(rates, 0), quantile(rates, 1)), showDuration(median(p50)),
			showDuration(median(p99)), strconv.Itoa(failed), ratio,
		})
	}
	return rows
}
