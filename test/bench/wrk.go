// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// wrkGenerator runs wrk, the load tool.
type wrkGenerator struct{}

func (wrkGenerator) String() string { return "wrk" }

// chooseGenerator returns wrk, installing Debian's package when that is possible, or else the one built in.
func chooseGenerator(ctx context.Context, say func(string, ...any)) generator {
	if _, err := exec.LookPath("wrk"); err == nil {
		return wrkGenerator{}
	}
	if os.Geteuid() == 0 {
		say("Installing wrk")
		cmd := exec.CommandContext(ctx, "apt-get", "install", "--yes", "--no-install-recommends", "wrk")
		cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
		if out, err := cmd.CombinedOutput(); err != nil {
			say("Installing wrk failed: %v: %s", err, lastLine(string(out)))
		} else if _, err := exec.LookPath("wrk"); err == nil {
			return wrkGenerator{}
		}
	}
	say("There is no wrk, so that the load generator built in is used; its figures cannot be compared with those of wrk")
	return builtinGenerator{now: time.Now}
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}

// wrkGrace is how much longer than asked for wrk may take.
const wrkGrace = 15 * time.Second

func (wrkGenerator) run(ctx context.Context, url string, connections int, duration time.Duration) (load, error) {
	ctx, cancel := context.WithTimeout(ctx, duration+wrkGrace)
	defer cancel()
	threads := min(2, connections)
	out, err := exec.CommandContext(ctx, "wrk", "--latency", "-t", strconv.Itoa(threads), "-c", strconv.Itoa(connections),
		"-d", strconv.Itoa(int(duration.Seconds()))+"s", "--timeout", "10s", url).CombinedOutput()
	if err != nil {
		return load{}, fmt.Errorf("running wrk: %w: %.500s", err, out)
	}
	return parseWrk(string(out))
}

var (
	wrkQuantile = regexp.MustCompile(`(?m)^\s+(50|99)%\s+([0-9.]+(?:us|ms|s|m|h))\s*$`)
	wrkRate     = regexp.MustCompile(`(?m)^Requests/sec:\s+([0-9.]+)\s*$`)
	wrkStatus   = regexp.MustCompile(`(?m)^\s+Non-2xx or 3xx responses:\s+(\d+)\s*$`)
	wrkSockets  = regexp.MustCompile(`(?m)^\s+Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)\s*$`)
)

// parseWrk reads the report of wrk --latency.
func parseWrk(report string) (load, error) {
	l := load{}
	rate := wrkRate.FindStringSubmatch(report)
	if rate == nil {
		return l, fmt.Errorf("the report of wrk has no rate: %.500q", report)
	}
	var err error
	if l.perSecond, err = strconv.ParseFloat(rate[1], 64); err != nil {
		return l, fmt.Errorf("reading the report of wrk: %w", err)
	}
	found := 0
	for _, m := range wrkQuantile.FindAllStringSubmatch(report, -1) {
		latency, err := time.ParseDuration(m[2])
		if err != nil {
			return l, fmt.Errorf("reading the report of wrk: %w", err)
		}
		if found++; m[1] == "50" {
			l.p50 = latency
		} else {
			l.p99 = latency
		}
	}
	if found != 2 {
		return l, fmt.Errorf("the report of wrk has no latencies: %.500q", report)
	}
	for _, pattern := range []*regexp.Regexp{wrkStatus, wrkSockets} {
		if m := pattern.FindStringSubmatch(report); m != nil {
			for _, text := range m[1:] {
				n, err := strconv.Atoi(text)
				if err != nil {
					return l, fmt.Errorf("reading the report of wrk: %w", err)
				}
				l.failed += n
			}
		}
	}
	return l, nil
}
