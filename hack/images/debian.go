// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"

	"github.com/naeel/sless/hack/internal/progress"
)

// packagesOf are the Debian packages that bring a program.
var packagesOf = map[string][]string{
	"mmdebstrap": {"mmdebstrap", "debian-archive-keyring"},
	"npm":        {"npm"},
}

// needPrograms installs the Debian packages of the programs that this machine lacks. It needs root and apt-get, and
// says so in one sentence.
func (w *workshop) needPrograms(ctx context.Context, programs ...string) error {
	if os.Geteuid() != 0 && len(programs) > 0 {
		return errors.New("making runtime images needs root, because root file systems have files of several owners")
	}
	missing := slices.DeleteFunc(slices.Clone(programs), func(program string) bool {
		_, err := exec.LookPath(program)
		return err == nil
	})
	if len(missing) == 0 {
		return nil
	}
	if _, err := exec.LookPath("apt-get"); err != nil {
		return fmt.Errorf("making runtime images needs %s, and there is no apt-get to install it with",
			strings.Join(missing, " and "))
	}
	return w.progress.Step("Install "+strings.Join(missing, ", "), func(progress.Say) (string, error) {
		install := []string{"install", "-y", "--no-install-recommends"}
		for _, program := range missing {
			install = append(install, packagesOf[program]...)
		}
		if apt(ctx, install...) == nil {
			return "", nil
		}
		// A fresh machine has no package lists, or old ones. An update may fail for a source that is not needed.
		updateErr := apt(ctx, "update")
		if err := apt(ctx, install...); err != nil {
			return "", errors.Join(updateErr, err)
		}
		return "", nil
	})
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"-o", "DPkg::Lock::Timeout=120"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	if out, err := cmd.CombinedOutput(); err != nil {
		const limit = 2048
		return fmt.Errorf("apt-get %s: %w\n%s", args[0], err, out[max(0, len(out)-limit):])
	}
	return nil
}
