// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/naeel/sless/hack/internal/oci"
	"github.com/naeel/sless/hack/internal/progress"
	"github.com/naeel/sless/hack/internal/toolcache"
)

// configLabel is put on an image in containerd and holds the digest of the configuration of what was loaded, by which
// an image that is already there is known. An import by other means drops the label.
const configLabel = "sless.io/config"

// Load imports image files, as oci.SaveTar and `docker save` write them, into the node. Images that the node already
// has with the same content under the same name are skipped.
func (c *Cluster) Load(ctx context.Context, say progress.Say, files ...string) (loaded int, err error) {
	if say == nil {
		say = func(string, ...any) {}
	}
	for _, file := range files {
		ref, config, err := oci.TarContent(file)
		if err != nil {
			return loaded, err
		}
		label := configLabel + "=" + config.String()
		filter := fmt.Sprintf("name==%s,labels.%q==%s", ref, configLabel, config)
		have, err := c.ctr(ctx, "images", "ls", "-q", filter)
		if err != nil {
			return loaded, err
		}
		if strings.TrimSpace(have) != "" {
			continue
		}
		say("importing %s", ref)
		if _, err := c.ctr(ctx, "images", "import", file); err != nil {
			return loaded, err
		}
		if _, err := c.ctr(ctx, "images", "label", ref, label); err != nil {
			return loaded, err
		}
		loaded++
	}
	return loaded, nil
}

// ctr runs containerd's client against our containerd.
func (c *Cluster) ctr(ctx context.Context, args ...string) (string, error) {
	return command(ctx, "", "ctr", append([]string{"--address", c.paths.socket(), "-n", imageNamespace}, args...)...)
}

// coreDNSImage names the image by the version that the tools module requires.
func (c *Cluster) coreDNSImage() (string, error) {
	group, err := toolcache.Named(c.Checkout, toolcache.CoreDNS)
	if err != nil {
		return "", err
	}
	version, err := group.Version()
	return "sless.local/coredns:" + version, err
}

// nodeImages makes the images that the node itself needs and gives their files.
func (c *Cluster) nodeImages(ctx context.Context, t tools) ([]string, error) {
	pause, err := c.Cache.Build(ctx, pauseGroup(c.Checkout), nil)
	if err != nil {
		return nil, err
	}
	coredns, err := c.coreDNSImage()
	if err != nil {
		return nil, err
	}
	var files []string
	for _, p := range []struct{ dir, name, ref string }{
		{pause, "pause", pauseImage},
		{t.coredns, "coredns", coredns},
	} {
		file, err := c.programImage(p.dir, p.name, p.ref)
		if err != nil {
			return nil, fmt.Errorf("image %s: %w", p.ref, err)
		}
		files = append(files, file)
	}
	return files, nil
}

// pauseGroup builds the program that holds a pod's namespaces.
func pauseGroup(checkout string) toolcache.Group {
	return toolcache.Group{
		Name: "pause", Dir: filepath.Join(checkout, "hack", "cluster", "pause"),
		Programs: []toolcache.Program{{Name: "pause", Package: "."}},
	}
}

// programImage makes an image of one static program. Its file is named by the image and by the program's folder in the
// cache, whose name says what is in it.
func (c *Cluster) programImage(dir, name, ref string) (string, error) {
	plain := strings.NewReplacer("/", "_", ":", "_").Replace(ref)
	file := filepath.Join(c.Cache.Dir, "images", plain+"-"+filepath.Base(dir)+".tar")
	if _, err := os.Stat(file); err == nil {
		return file, nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	img, err := oci.Build(oci.Spec{
		Layers:     []oci.Layer{{Files: []oci.File{{Path: name, Source: filepath.Join(dir, name), Mode: 0o755}}}},
		Entrypoint: []string{"/" + name},
		User:       "65532:65532",
	})
	if err != nil {
		return "", err
	}
	return file, oci.SaveTar(file, ref, img)
}
