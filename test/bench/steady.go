// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"

	"k8s.io/utils/ptr"
)

// steadyIdle is longer than a load, so that the function stays up.
const steadyIdle = 300

// measureSteady loads two functions through the gateway in turns, one with a fixed number of replicas and one that scales,
// whose calls pass the autoscaler's interceptor. Both have one pod. Without KEDA nothing is measured.
func measureSteady(ctx context.Context, b *bench, runs int) ([]*table, error) {
	if ok, err := b.hasAutoscaler("steady"); !ok {
		return nil, err
	}
	return b.compareWays(ctx, runs, "steady", "Warm calls through the gateway", "function", "requests/s of the fixed one's",
		b.steadyTargets)
}

// steadyTargets deploys a function with one replica and one that scales, but not above one replica.
func (b *bench) steadyTargets(ctx context.Context, p program) ([]target, error) {
	suffix := strings.ReplaceAll(p.runtime, ".", "-")
	b.say("Deploying steady-fixed-%s", suffix)
	fixed, err := b.deploy(ctx, p.function("steady-fixed-"+suffix, warmNumber))
	if err != nil {
		return nil, err
	}
	fn := scaling(p.function("steady-scaling-"+suffix, warmNumber), steadyIdle)
	fn.Spec.Scaling.MaxReplicas = ptr.To[int32](1)
	s, err := b.deploySleeper(ctx, fn, warmNumber)
	if err != nil {
		return nil, err
	}
	targets := []target{{"fixed", fixed.Status.URL}, {"scaling", s.url}}
	for _, t := range targets {
		address, err := url.Parse(t.url)
		if err != nil {
			return nil, fmt.Errorf("reading the URL of the %s function: %w", t.name, err)
		}
		if err := onlyThisMachine(ctx, address.Hostname()); err != nil {
			return nil, err
		}
		if number, err := call(ctx, t.url); err != nil || number != warmNumber {
			b.wrongAnswer("the %s function answers %d, %v", t.name, number, err)
		}
	}
	return targets, nil
}
