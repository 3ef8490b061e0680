// SPDX-License-Identifier: Apache-2.0

package rootfs

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
)

// debianKeyring holds the keys of Debian's archive on every machine that has the package debian-archive-keyring.
const debianKeyring = "/usr/share/keyrings/debian-archive-keyring.gpg"

// sources returns the machine's own apt sources of a suite with its updates and security updates, one line each. It is
// empty on a machine that has none (another distribution, another suite); mmdebstrap then uses its default.
func sources(ctx context.Context, suite string) []string {
	out, err := exec.CommandContext(ctx, "apt-get", "indextargets", "--format",
		"$(CREATED_BY) $(RELEASE) $(REPO_URI) $(COMPONENT)").Output()
	if err != nil {
		return nil
	}
	_, err = os.Stat(debianKeyring)
	return sourceLines(string(out), suite, err == nil)
}

func sourceLines(targets, suite string, haveKeyring bool) []string {
	var option string
	if haveKeyring {
		option = "[signed-by=" + debianKeyring + "] "
	}
	var lines []string
	for line := range strings.Lines(targets) {
		fields := strings.Fields(line)
		if len(fields) != 4 || fields[0] != "Packages" || fields[3] != "main" {
			continue
		}
		switch fields[1] {
		case suite, suite + "-updates", suite + "-security":
			lines = append(lines, fmt.Sprintf("deb %s%s %s %s", option, fields[2], fields[1], fields[3]))
		}
	}
	slices.Sort(lines)
	return slices.Compact(lines)
}

// proxies returns the machine's apt settings for reaching its sources. The values may hold a password: they are passed
// on and never printed.
func proxies(ctx context.Context) []string {
	out, err := exec.CommandContext(ctx, "apt-config", "dump").Output()
	if err != nil {
		return nil
	}
	var settings []string
	for line := range strings.Lines(string(out)) {
		line = strings.TrimSpace(line)
		name, _, _ := strings.Cut(line, " ")
		name = strings.ToLower(name)
		if strings.HasPrefix(name, "acquire::http") && strings.Contains(name, "proxy") {
			settings = append(settings, line)
		}
	}
	return settings
}
