// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"net/http"
	"time"
)

// ready waits until the watchdog of this container has loaded the handler.
func ready(ctx context.Context, args []string, stderr io.Writer) int {
	flags := flag.NewFlagSet("watchdog ready", flag.ContinueOnError)
	flags.SetOutput(stderr)
	port := flags.Int("admin-port", 8081, "port of the watchdog's /readyz")
	if err := flags.Parse(args); err != nil {
		return 1
	}
	url := fmt.Sprintf("http://127.0.0.1:%d/readyz", *port)
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return 1
		}
		res, err := http.DefaultClient.Do(req)
		if err == nil {
			_ = res.Body.Close()
			if res.StatusCode == http.StatusOK {
				return 0
			}
		}
		select {
		case <-ctx.Done():
			return 1
		case <-time.After(readyPoll):
		}
	}
}
