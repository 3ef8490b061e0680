// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

// EnvAssets is the variable that tells envtest where its programs are.
const EnvAssets = "KUBEBUILDER_ASSETS"

const (
	setupEnvtest = "sigs.k8s.io/controller-runtime/tools/setup-envtest@v0.25.1"
	// releaseIndex is what setup-envtest reads first; when it cannot be reached, nothing else is tried.
	releaseIndex = "https://raw.githubusercontent.com/kubernetes-sigs/controller-tools/HEAD/envtest-releases.yaml"
	// reachLimit bounds the look whether the index is there, downloadLimit the download of some 60 MB.
	reachLimit    = 4 * time.Second
	downloadLimit = 3 * time.Minute
)

// envtestPrograms are what envtest runs.
func envtestPrograms() []string { return []string{"kube-apiserver", "etcd", "kubectl"} }

// EnvtestAssets gives a folder with the programs that envtest needs: the one that the caller's KUBEBUILDER_ASSETS
// names, else the programs of the local cluster when they are built, else a download, else it builds them. It needs
// neither root nor a cluster.
func (c *Cluster) EnvtestAssets(ctx context.Context) (string, error) {
	if dir := os.Getenv(EnvAssets); dir != "" {
		return dir, hasPrograms(dir)
	}
	built, err := c.toolsBuilt(ctx)
	if err != nil {
		return "", err
	}
	if !built {
		dir, err := c.downloadAssets(ctx)
		if err != nil || dir != "" {
			return dir, err
		}
	}
	return c.buildAssets(ctx)
}

// hasPrograms checks a folder.
func hasPrograms(dir string) error {
	for _, name := range envtestPrograms() {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			return fmt.Errorf("the folder %s, which %s names, has no %s", dir, EnvAssets, name)
		}
	}
	return nil
}

// toolsBuilt says whether the cache has all groups that envtest needs.
func (c *Cluster) toolsBuilt(ctx context.Context) (bool, error) {
	for _, name := range []string{toolcache.Kubernetes, toolcache.Etcd} {
		group, err := toolcache.Named(c.Checkout, name)
		if err != nil {
			return false, err
		}
		if _, built, err := c.Cache.Folder(ctx, group); err != nil || !built {
			return false, err
		}
	}
	return true, nil
}

// buildAssets builds the groups and links the programs into one folder.
func (c *Cluster) buildAssets(ctx context.Context) (string, error) {
	kubernetes, err := c.BuildTools(ctx, toolcache.Kubernetes)
	if err != nil {
		return "", err
	}
	etcd, err := c.BuildTools(ctx, toolcache.Etcd)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(c.Cache.Dir, "envtest", filepath.Base(kubernetes)+"-"+filepath.Base(etcd))
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	for _, name := range envtestPrograms() {
		source := filepath.Join(kubernetes, name)
		if name == "etcd" {
			source = filepath.Join(etcd, name)
		}
		err := os.Symlink(source, filepath.Join(dir, name))
		if err != nil && !errors.Is(err, os.ErrExist) {
			return "", err
		}
	}
	return dir, nil
}

// downloadAssets lets setup-envtest download the programs of the same minor version into the cache; what it has
// downloaded before it does not download again. The folder is empty when there is no download to be had.
func (c *Cluster) downloadAssets(ctx context.Context) (dir string, err error) {
	group, err := toolcache.Named(c.Checkout, toolcache.Kubernetes)
	if err != nil {
		return "", err
	}
	version, err := group.Version()
	if err != nil {
		return "", err
	}
	err = c.Out.Step("Download for envtest", func(say progress.Say) (string, error) {
		say("looking for a download")
		err := reachable(ctx, releaseIndex)
		if err == nil {
			say("downloading")
			dir, err = c.runSetupEnvtest(ctx, minorRange(version))
		}
		if err == nil {
			return dir, nil
		}
		dir = ""
		return fmt.Sprintf("none, the programs will be built (%v)", err), ctx.Err()
	})
	return dir, err
}

// minorRange turns v1.37.2 into 1.37.x: not every patch release is published for envtest.
func minorRange(version string) string {
	parts := strings.SplitN(strings.TrimPrefix(version, "v"), ".", 3)
	if len(parts) < 2 {
		return version
	}
	return parts[0] + "." + parts[1] + ".x"
}

func reachable(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, reachLimit)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodHead, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("%s answers %s", req.URL.Host, resp.Status)
	}
	return nil
}

func (c *Cluster) runSetupEnvtest(ctx context.Context, versions string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, downloadLimit)
	defer cancel()
	cmd := exec.CommandContext(ctx, "go", "run", setupEnvtest,
		"use", versions, "--bin-dir", filepath.Join(c.Cache.Dir, "envtest"), "-p", "path")
	// It is a program of its own: the caller's flags for the main module do not hold for it.
	cmd.Env = append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	cmd.Dir = os.TempDir()
	out, err := cmd.Output()
	if err != nil {
		if exit, ok := errors.AsType[*exec.ExitError](err); ok {
			return "", fmt.Errorf("setup-envtest: %w: %s", err, lastBytes(strings.TrimSpace(string(exit.Stderr)), 500))
		}
		return "", err
	}
	dir := strings.TrimSpace(string(out))
	return dir, hasPrograms(dir)
}
