// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"strings"
)

// command runs a program with a fixed search path and gives its standard output. The error holds the command line and
// the end of what the program complained.
func command(ctx context.Context, stdin, name string, args ...string) (string, error) {
	path, err := lookProgram(name)
	if err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = baseEnv()
	if stdin != "" {
		cmd.Stdin = strings.NewReader(stdin)
	}
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		return stdout.String(), fmt.Errorf("%s %s: %w: %s",
			name, strings.Join(args, " "), err, lastBytes(strings.TrimSpace(stderr.String()), 2000))
	}
	return stdout.String(), nil
}

func lastBytes(s string, limit int) string {
	if len(s) > limit {
		return "... " + s[len(s)-limit:]
	}
	return s
}

// searchPath is where Debian puts programs; that of the caller may lack the folders for root.
const searchPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// baseEnv is the environment of every program that is run: the caller's would change from run to run.
func baseEnv() []string {
	return []string{"PATH=" + searchPath, "HOME=/root", "LANG=C.UTF-8"}
}

// lookProgram finds a program in the search path; a name with a slash is taken as it is.
func lookProgram(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for dir := range strings.SplitSeq(searchPath, ":") {
		if path, err := exec.LookPath(dir + "/" + name); err == nil {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s is not installed", name)
}
