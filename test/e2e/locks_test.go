//go:build e2e

// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"os"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	"golang.org/x/sys/unix"
)

// How a story holds a lock: together with others that do, or alone.
const (
	together = unix.LOCK_SH
	alone    = unix.LOCK_EX
)

// lock waits for a lock that the stories of all processes go by, and holds it until the story ends. It is for a part of the
// platform that some stories need whole and others break. A story that breaks what all others need is Serial instead.
func lock(part string, how int) {
	GinkgoHelper()
	folder := filepath.Join("..", "..", "bin")
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	file, err := os.OpenFile(filepath.Join(folder, "e2e-"+part+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(file.Close)
	Eventually(func() error { return unix.Flock(int(file.Fd()), how|unix.LOCK_NB) }).WithTimeout(buildEnd).Should(Succeed())
}
