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
	// Whoever asks first gets it first. Else stories that hold it together would keep out the one that needs it alone.
	queue := lockFile(part + "-queue")
	hold(queue, alone)
	hold(lockFile(part), how)
	Expect(queue.Close()).To(Succeed())
}

// lockFile opens the file of a lock, which is given back with the file: at the end of the story at the latest.
func lockFile(name string) *os.File {
	GinkgoHelper()
	folder := filepath.Join("..", "..", "bin")
	Expect(os.MkdirAll(folder, 0o755)).To(Succeed())
	file, err := os.OpenFile(filepath.Join(folder, "e2e-"+name+".lock"), os.O_CREATE|os.O_RDWR, 0o644)
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { _ = file.Close() }) // it may be closed
	return file
}

func hold(file *os.File, how int) {
	GinkgoHelper()
	Eventually(func() error { return unix.Flock(int(file.Fd()), how|unix.LOCK_NB) }).WithTimeout(buildEnd).Should(Succeed())
}
