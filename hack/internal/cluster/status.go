// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"text/tabwriter"
	"time"
)

func goos() string { return runtime.GOOS }

// Status writes a table of the parts. It gives whether all of them run.
func (c *Cluster) Status(ctx context.Context, w io.Writer) (allUp bool, err error) {
	owner, err := c.readOwner()
	if err != nil {
		return false, err
	}
	if owner == "" {
		_, err := fmt.Fprintln(w, "There is no cluster on this machine.")
		return false, err
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	_, _ = fmt.Fprintln(table, "PART\tSTATE\tPID\tLOG")
	allUp = true
	daemons := c.daemons()
	for _, part := range parts() {
		state, pid := "down", "-"
		if id, ok := daemons.Find(part); ok {
			state, pid = "up", fmt.Sprint(id.PID)
		} else {
			allUp = false
		}
		_, _ = fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", part, state, pid, daemons.LogFile(part))
	}
	if err := table.Flush(); err != nil {
		return false, err
	}
	node := "unknown"
	if client, err := c.client(); err == nil && allUp {
		node = "ready"
		if err := nodeReady(client, time.Time{})(ctx); err != nil {
			node, allUp = err.Error(), false
		}
	}
	_, err = fmt.Fprintf(w, "\nnode        %s\ncheckout    %s\nkubeconfig  %s\n", node, owner, c.Kubeconfig())
	return allUp, err
}
