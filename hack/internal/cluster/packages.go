// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"

	"github.com/naeel/sless/hack/internal/progress"
)

// debianPackages gives, for each package that the cluster and its images need, a file that shows that it is there.
// Other sources than Debian's packages are as good, so the files are looked for and not the packages.
func debianPackages() []debianPackage {
	return []debianPackage{
		{"containerd", "containerd"},
		{"runc", "runc"},
		{"containernetworking-plugins", "bridge"},
		{"iptables", "iptables"},
		{"nftables", "nft"},
		{"iproute2", "ip"},
		{"conntrack", "conntrack"},
		{"mmdebstrap", "mmdebstrap"},
	}
}

type debianPackage struct {
	name, program string
}

// cniDirs are the folders that hold CNI plugins: Debian's and the one that everybody else uses.
func cniDirs() []string { return []string{"/usr/lib/cni", "/opt/cni/bin"} }

// cniDir gives the folder that has the bridge plugin.
func cniDir() (string, bool) {
	for _, dir := range cniDirs() {
		if _, err := os.Stat(dir + "/bridge"); err == nil {
			return dir, true
		}
	}
	return "", false
}

func missingPackages() []string {
	var missing []string
	for _, p := range debianPackages() {
		_, err := lookProgram(p.program)
		there := err == nil
		if p.program == "bridge" {
			// There is a program of this name in iproute2, which is not the plugin.
			_, there = cniDir()
		}
		if !there {
			missing = append(missing, p.name)
		}
	}
	return missing
}

// installPackages installs what is missing.
func installPackages(ctx context.Context, say progress.Say) (string, error) {
	missing := missingPackages()
	if len(missing) == 0 {
		return "all present", nil
	}
	say("reading Debian's package lists")
	if err := aptGet(ctx, "update"); err != nil {
		return "", err
	}
	say("installing %s", strings.Join(missing, " "))
	if err := aptGet(ctx, append([]string{"install", "-y", "--no-install-recommends"}, missing...)...); err != nil {
		return "", err
	}
	for _, name := range missing {
		if name == "containerd" {
			stopDebianContainerd(ctx)
		}
	}
	if still := missingPackages(); len(still) > 0 {
		return "", fmt.Errorf("apt-get installed %s, but their programs are not there", strings.Join(still, " "))
	}
	return "installed " + strings.Join(missing, " "), nil
}

// aptGet runs apt-get with the caller's environment, which may name a proxy.
func aptGet(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-q", "-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("apt-get %s: %w: %s", args[0], err, lastBytes(strings.TrimSpace(string(out)), 2000))
	}
	return nil
}

// stopDebianContainerd switches off the service that Debian starts with the package that has just been installed: the
// cluster has a containerd of its own.
func stopDebianContainerd(ctx context.Context) {
	if _, err := os.Stat("/run/systemd/system"); err != nil {
		return
	}
	// Without the service there is nothing to switch off, and a running one does no harm either.
	_, _ = command(ctx, "", "systemctl", "disable", "--now", "containerd.service")
}
